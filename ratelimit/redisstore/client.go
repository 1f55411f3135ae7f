package redisstore

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

const (
	defaultTimeout     = 50 * time.Millisecond
	defaultDialTimeout = 100 * time.Millisecond

	// bufferSize is of each connection, twice. It holds several decisions; by default they would be 32 KiB.
	bufferSize = 4 << 10
)

// A Mode says what stands at the addresses.
type Mode string

// The modes.
const (
	Auto     Mode = "auto"     // Sentinel with a master's name, a cluster with several addresses, else a single server
	Single   Mode = "single"   // one server
	Cluster  Mode = "cluster"  // some nodes of a cluster
	Sentinel Mode = "sentinel" // sentinels that know where the master is
)

// ClientOptions say how Redis is reached.
type ClientOptions struct {
	Addresses  []string // host:port, at least one
	Mode       Mode     // "" for Auto
	MasterName string   // that the sentinels know the master by

	// Credentials returns what a connection that is made now logs in with; connections that are open stay as they are. The
	// user is "" for Redis' default user, the password "" for none. nil stands for no credentials.
	Credentials func() (user, password string)

	SentinelUsername string
	SentinelPassword string

	Database int // 0 in a cluster
	PoolSize int // connections to each server; 0 for ten times the processors

	// TLS is asked what a connection that is made now is secured by, as certificates are renewed while gateways run; nil for none.
	TLS func(context.Context) *tls.Config

	Timeout     time.Duration // of a call, all told; 0 for 50 ms
	DialTimeout time.Duration // 0 for 100 ms
}

// NewClient returns a client that waits for nothing longer than it is told to: go-redis by itself would hold a request for
// seconds when a server hangs, and repeat commands that may have been executed.
func NewClient(o ClientOptions) (redis.UniversalClient, error) {
	mode, err := o.mode()
	if err != nil {
		return nil, err
	}
	if o.Timeout == 0 {
		o.Timeout = defaultTimeout
	}
	if o.DialTimeout == 0 {
		o.DialTimeout = defaultDialTimeout
	}
	u := &redis.UniversalOptions{
		Addrs: o.Addresses, DB: o.Database, MasterName: o.MasterName, IsClusterMode: mode == Cluster, Dialer: o.dialer(),
		CredentialsProvider: o.Credentials, SentinelUsername: o.SentinelUsername, SentinelPassword: o.SentinelPassword,

		ContextTimeoutEnabled: true,
		ReadTimeout:           o.Timeout,
		WriteTimeout:          o.Timeout,
		PoolTimeout:           o.Timeout,
		DialTimeout:           o.DialTimeout,
		DialerRetries:         1,
		MaxRetries:            -1, // a script that was retried may have run twice; a cluster's redirects are counted apart
		PoolSize:              o.PoolSize,
		ReadBufferSize:        bufferSize,
		WriteBufferSize:       bufferSize,
		Protocol:              2, // in the third version, each answer is first looked at for what the server says unasked

		DisableIdentity:          true, // older servers refuse what newer clients say of themselves
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	}
	switch mode {
	case Sentinel:
		return redis.NewFailoverClient(u.Failover()), nil
	case Cluster:
		cluster := u.Cluster()
		cluster.DisableRoutingPolicies = true // a script names its key; no need to ask the cluster for all of its commands
		return redis.NewClusterClient(cluster), nil
	default:
		return redis.NewClient(u.Simple()), nil
	}
}

// dialer makes connections as go-redis by itself does, which would use one configuration of TLS for all of them.
func (o ClientOptions) dialer() func(ctx context.Context, network, address string) (net.Conn, error) {
	if o.TLS == nil {
		return nil
	}
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		dial := redis.NewDialer(&redis.Options{DialTimeout: o.DialTimeout, TLSConfig: o.TLS(ctx)})
		return dial(ctx, network, address)
	}
}

// mode says what Auto stands for, and whether the options fit together.
func (o ClientOptions) mode() (Mode, error) {
	mode := o.Mode
	if mode == Auto || mode == "" {
		switch {
		case o.MasterName != "":
			mode = Sentinel
		case len(o.Addresses) > 1:
			mode = Cluster
		default:
			mode = Single
		}
	}
	switch {
	case len(o.Addresses) == 0:
		return "", errors.New("redis: no addresses")
	case mode == Single && len(o.Addresses) > 1:
		return "", fmt.Errorf("redis: %d addresses of a single server", len(o.Addresses))
	case mode == Sentinel && o.MasterName == "":
		return "", errors.New("redis: the sentinels must be asked for a master by its name")
	case mode == Cluster && o.Database != 0:
		return "", fmt.Errorf("redis: a cluster has no database %d", o.Database)
	case mode != Single && mode != Cluster && mode != Sentinel:
		return "", fmt.Errorf("redis: mode %q is not known", mode)
	}
	return mode, nil
}

// timeoutOf returns how long a call by the client may take.
func timeoutOf(c redis.UniversalClient) time.Duration {
	switch c := c.(type) {
	case interface{ Options() *redis.Options }:
		return c.Options().ReadTimeout
	case interface{ Options() *redis.ClusterOptions }:
		return c.Options().ReadTimeout
	default:
		return defaultTimeout
	}
}
