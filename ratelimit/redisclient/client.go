package redisclient

import (
	"cmp"
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

	// bufferSize is the size of each connection's two buffers. It holds a batch of decisions;
	// go-redis's default is 32 KiB.
	bufferSize = 8 << 10
)

// A Topology is the kind of servers at the addresses.
type Topology string

// The topologies.
const (
	// Sentinel if there is a MasterName, Cluster if there are several addresses, else Single
	Auto     Topology = "auto"
	Single   Topology = "single"   // one server
	Cluster  Topology = "cluster"  // some nodes of a cluster
	Sentinel Topology = "sentinel" // sentinels of a master
)

// Options are the options of New.
type Options struct {
	Addresses  []string // host:port, at least one
	Topology   Topology // "" for Auto
	MasterName string   // as the sentinels are configured

	// Credentials is called for each new connection. An empty user is the default user, an empty
	// password is none; nil for no credentials.
	Credentials func() (user, password string)

	SentinelUsername string
	SentinelPassword string

	Database int // 0 in a cluster
	PoolSize int // connections to each server; 0 for ten times the processors, in a cluster five times

	// TLS is called for each new connection, as certificates are renewed while gateways run; nil
	// for no TLS.
	TLS func(context.Context) *tls.Config

	Timeout     time.Duration // of a whole call; 0 for 50 ms
	DialTimeout time.Duration // 0 for 100 ms
}

// A Client is a client whose calls have a timeout.
type Client struct {
	redis.UniversalClient // a *redis.Client or a *redis.ClusterClient

	timeout time.Duration // of a call
	batcher batcher
}

// CallContext returns a context for one call, waiting included. It does not end with ctx: Redis
// executes a sent call anyway, and cancellation closes the connection.
func (c *Client) CallContext(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), c.timeout)
}

// New returns a client that enforces its timeouts and repeats no command, except that one of a
// cluster may repeat those without NoRetry. By default, go-redis waits for seconds when a server
// hangs, and repeats commands that the server may have executed.
func New(o Options) (*Client, error) {
	topology, err := o.topology()
	if err != nil {
		return nil, err
	}
	o.Timeout, o.DialTimeout = cmp.Or(o.Timeout, defaultTimeout), cmp.Or(o.DialTimeout, defaultDialTimeout)
	u := &redis.UniversalOptions{
		Addrs: o.Addresses, DB: o.Database, MasterName: o.MasterName, IsClusterMode: topology == Cluster, Dialer: o.dialer(),
		CredentialsProvider: o.Credentials, SentinelUsername: o.SentinelUsername, SentinelPassword: o.SentinelPassword,

		ContextTimeoutEnabled: true,
		ReadTimeout:           o.Timeout,
		WriteTimeout:          o.Timeout,
		PoolTimeout:           o.Timeout,
		DialTimeout:           o.DialTimeout,
		DialerRetries:         1,
		MaxRetries:            -1, // a retried script may run twice; redirects of a cluster are not retries
		PoolSize:              o.PoolSize,
		ReadBufferSize:        bufferSize,
		WriteBufferSize:       bufferSize,
		PipelinePoolSize:      -1, // one pool, as batches and single calls take turns
		Protocol:              2,  // version 3 searches each answer for push messages

		DisableIdentity:          true, // older servers refuse CLIENT SETINFO
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	}
	c := &Client{timeout: o.Timeout,
		batcher: batcher{minTime: o.Timeout / 4, servers: make(map[redis.UniversalClient]*server)}}
	switch topology {
	case Sentinel:
		c.UniversalClient = redis.NewFailoverClient(u.Failover())
	case Cluster:
		cluster := u.Cluster()
		// calls specify the position of their key, so the client need not query the commands
		cluster.DisableRoutingPolicies = true
		c.UniversalClient = redis.NewClusterClient(cluster)
	default:
		c.UniversalClient = redis.NewClient(u.Simple())
	}
	return c, nil
}

// dialer returns the dialer of go-redis with the current TLS configuration for each connection; nil
// without TLS.
func (o Options) dialer() func(ctx context.Context, network, address string) (net.Conn, error) {
	if o.TLS == nil {
		return nil
	}
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		dial := redis.NewDialer(&redis.Options{DialTimeout: o.DialTimeout, TLSConfig: o.TLS(ctx)})
		return dial(ctx, network, address)
	}
}

// topology returns the topology, with Auto resolved, or an error if the options contradict each
// other.
func (o Options) topology() (Topology, error) {
	t := o.Topology
	if t == Auto || t == "" {
		switch {
		case o.MasterName != "":
			t = Sentinel
		case len(o.Addresses) > 1:
			t = Cluster
		default:
			t = Single
		}
	}
	switch {
	case len(o.Addresses) == 0:
		return "", errors.New("redis: no addresses")
	case t == Single && len(o.Addresses) > 1:
		return "", fmt.Errorf("redis: a single server has one address, not %d", len(o.Addresses))
	case t == Sentinel && o.MasterName == "":
		return "", errors.New("redis: mode sentinel needs the name of the master")
	case t == Cluster && o.Database != 0:
		return "", fmt.Errorf("redis: a cluster has no database %d", o.Database)
	case t != Single && t != Cluster && t != Sentinel:
		return "", fmt.Errorf("redis: unknown mode %q", t)
	}
	return t, nil
}
