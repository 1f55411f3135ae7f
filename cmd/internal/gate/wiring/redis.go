package wiring

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"

	"opsgate/backendclient"
	"opsgate/backendclient/tlsfiles"
	"opsgate/cmd/internal/gate/admin"
	"opsgate/cmd/internal/gate/config"
	"opsgate/cmd/internal/kit/duration"
	"opsgate/cmd/internal/kit/tracing"
	"opsgate/ratelimit"
	"opsgate/ratelimit/failover"
	"opsgate/ratelimit/redisstore"
)

// RedisConnections is the maximum of connections to one Redis server.
const RedisConnections = 32

// sharedLimits is a limiter that counts in a Redis shared by gateways, and in the configured mode during an outage of Redis.
type sharedLimits struct {
	*failover.Store

	redis    *redisstore.Store
	replicas *redisstore.Replicas
	client   redis.UniversalClient
	logger   *slog.Logger

	config  atomic.Pointer[config.RateLimit]
	applyMu sync.Mutex // serializes apply, which reloads and changes of the number of gateways call
}

// newSharedLimits returns a limiter that reports a status of this gateway with its heartbeats.
func newSharedLimits(
	o Options, registry prometheus.Registerer, traces *tracing.Provider, status func() admin.GatewayStatus,
) (_ *sharedLimits, err error) {
	c := o.Loaded.RateLimit.Redis
	tlsConfig, err := redisTLS(c.TLS, o.Logger)
	if err != nil {
		return nil, err
	}
	// The library has one logger per process. Its lines concern single connections, so they are logged at level debug; failover logs outages.
	redisstore.LogTo(o.Logger)
	l := &sharedLimits{logger: o.Logger}
	l.config.Store(&o.Loaded.RateLimit)
	if l.client, err = l.connect(c, tlsConfig); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, l.client.Close())
		}
	}()
	if hook := traces.RedisHook(c.Addresses); hook != nil {
		l.client.AddHook(hook)
	}
	l.redis, err = redisstore.New(redisstore.Options{
		Client: l.client, Prefix: c.KeyPrefix, Logger: o.Logger, Registerer: registry, Exemplar: traces.Exemplar(),
		OnRefund: func(tokenID string) { l.DropDenial(tokenID) }, // l.Store is set before Run is called
	})
	if err != nil {
		return nil, err
	}
	l.replicas, err = redisstore.NewReplicas(redisstore.ReplicasOptions{
		Client: l.client, Prefix: c.KeyPrefix, Changed: l.replicasChanged, Logger: o.Logger, Registerer: registry,
		Status: func() []byte { return status().Encode() },
	})
	if err != nil {
		return nil, err
	}
	l.Store, err = failover.New(failover.Options{
		Shared: l.redis, Subscribed: l.redis.Subscribed, Settings: l.settings(), Logger: o.Logger, Registerer: registry,
	})
	if err != nil {
		return nil, err
	}
	return l, nil
}

// connect returns a client, which connects when it is first used.
func (l *sharedLimits) connect(c config.Redis, tlsConfig func(context.Context) *tls.Config) (redis.UniversalClient, error) {
	return redisstore.NewClient(redisstore.ClientOptions{
		Addresses:        c.Addresses,
		Topology:         redisstore.Topology(c.Mode),
		MasterName:       c.MasterName,
		Credentials:      l.credentials,
		SentinelUsername: c.SentinelUsername,
		SentinelPassword: c.SentinelPassword.Reveal(),
		Database:         c.Database,
		TLS:              tlsConfig,
		PoolSize:         RedisConnections,
		Timeout:          time.Duration(c.Timeout),
		DialTimeout:      c.DialTimeout(),
	})
}

// credentials returns the user and the password for a new connection.
func (l *sharedLimits) credentials() (user, password string) {
	c := l.config.Load().Redis
	return c.Username, c.Password.Reveal()
}

// configure applies the settings that can change while running.
func (l *sharedLimits) configure(c config.RateLimit) {
	before := l.config.Swap(&c).Redis
	if c.Redis.Username != before.Username || c.Redis.Password.Reveal() != before.Password.Reveal() {
		l.logger.Info("the credentials of Redis changed: new connections use them")
	}
	l.apply()
}

// replicasChanged applies a new number of gateways, unless the number is configured.
func (l *sharedLimits) replicasChanged(int, int) {
	if l.config.Load().ExpectedReplicas == config.Auto {
		l.apply()
	}
}

// apply configures the failover with the current settings.
func (l *sharedLimits) apply() {
	l.applyMu.Lock()
	defer l.applyMu.Unlock()
	l.Configure(l.settings())
}

// settings returns the current settings of the failover.
func (l *sharedLimits) settings() failover.Settings {
	return failover.Settings{
		Mode: ratelimit.Mode(l.config.Load().OnStoreFailure), Replicas: l.expectedReplicas(),
	}
}

// expectedReplicas returns the number of gateways that divide the limits in an outage.
func (l *sharedLimits) expectedReplicas() int {
	if n := l.config.Load().ExpectedReplicas; n != config.Auto {
		return int(n)
	}
	return l.replicas.Count()
}

// state returns the state of the store for the admin listener.
func (l *sharedLimits) state() admin.Store {
	state := l.State()
	return admin.Store{
		Mode: state.Mode, Since: &state.Since, Replicas: l.expectedReplicas(),
		Breaker: &admin.Breaker{State: backendclient.BreakerState(state.Breaker), Cause: state.Cause},
	}
}

// Run runs the background tasks until ctx ends.
func (l *sharedLimits) Run(ctx context.Context) error {
	tasks, ctx := errgroup.WithContext(ctx)
	tasks.Go(func() error { return l.redis.Run(ctx) })
	tasks.Go(func() error { return l.replicas.Run(ctx) })
	tasks.Go(func() error {
		l.ProbeFirst(ctx) // so that an outage is logged at the start
		return l.Store.Run(ctx)
	})
	return tasks.Wait()
}

// dependency returns the state of Redis for the readiness page; in an outage, State has the mode of the limits.
func (l *sharedLimits) dependency(now time.Time) admin.Dependency {
	state := l.State()
	b := &backendclient.BreakerStatus{State: backendclient.BreakerState(state.Breaker), TrippedAt: state.Since, Cause: state.Cause}
	if state.Mode == ratelimit.ModeShared {
		return admin.Dependency{State: "ready", OK: true, Breaker: b}
	}
	d := admin.Dependency{
		State:  "unavailable, limits are " + string(state.Mode),
		Reason: "not in use for " + duration.Rounded(now.Sub(state.Since)), Since: state.Since, Breaker: b,
	}
	if cause := redisCause(state.Cause); cause != "" {
		d.Reason += ": " + cause
	}
	return d
}

func (l *sharedLimits) close() error {
	if err := l.client.Close(); err != nil {
		return fmt.Errorf("close the connections to Redis: %w", err)
	}
	return nil
}

// redisTLS returns the TLS configuration for connections to Redis and its sentinels, or nil for none.
func redisTLS(c config.ClientTLS, logger *slog.Logger) (func(context.Context) *tls.Config, error) {
	if !c.Enabled {
		return nil, nil
	}
	files, err := tlsFiles(c).Reloader(logger.With(slog.String("service", "redis")))
	if err != nil {
		return nil, fmt.Errorf("TLS to Redis: %w", err)
	}
	return files.Config, nil
}

func tlsFiles(c config.ClientTLS) tlsfiles.Files {
	return tlsfiles.Files{CAFile: string(c.CAFile), CertFile: string(c.CertFile), KeyFile: string(c.KeyFile), ServerName: c.ServerName}
}
