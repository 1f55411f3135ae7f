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

	"golang.org/x/sync/errgroup"

	"opsgate/cmd/internal/gate/config"
	"opsgate/internal/certs"
	"opsgate/internal/tracing"
	"opsgate/ratelimit"
	"opsgate/ratelimit/failover"
	"opsgate/ratelimit/membership"
	"opsgate/ratelimit/redisclient"
	"opsgate/ratelimit/redisstore"
)

// redisConnections is the maximum of connections to one Redis server.
const redisConnections = 32

// redisLimits is a limiter that counts in a Redis that gateways share. During an outage of Redis it
// decides as rate_limit.on_store_failure states.
type redisLimits struct {
	*failover.Store

	redis    *redisstore.Store
	gateways *membership.Gateways
	client   *redisclient.Client
	logger   *slog.Logger

	config   *atomic.Pointer[config.RateLimit]
	updating sync.Mutex // held during updateFailover, which a reload and a change of gateways may call at once
}

func newRedisLimits(c common, traces *tracing.Provider) (_ *redisLimits, err error) {
	redisConfig := c.Loaded.RateLimit.Redis
	current := new(atomic.Pointer[config.RateLimit]) // a reload changes it
	current.Store(&c.Loaded.RateLimit)
	tlsConfig, err := redisTLS(redisConfig.TLS, c.Logger)
	if err != nil {
		return nil, err
	}
	// The library has one logger per process. Its lines concern single connections, so they are
	// logged at level debug; failover logs outages.
	redisclient.LogTo(c.Logger)
	client, err := newRedisClient(redisConfig, tlsConfig, current)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, client.Close())
		}
	}()
	store, err := redisstore.New(redisstore.Options{
		Client: client, Prefix: redisConfig.KeyPrefix, Logger: c.Logger, Registerer: c.registry, Exemplar: traces.Exemplar(),
		Hook: traces.RedisHook(redisConfig.Addresses),
	})
	if err != nil {
		return nil, err
	}
	gateways, err := membership.New(membership.Options{
		Client: client, Prefix: redisConfig.KeyPrefix, Logger: c.Logger, Registerer: c.registry,
	})
	if err != nil {
		return nil, err
	}
	l := &redisLimits{redis: store, gateways: gateways, client: client, logger: c.Logger, config: current}
	l.Store, err = failover.New(failover.Options{
		Shared: store, CallTimeout: time.Duration(redisConfig.Timeout), Subscribed: store.Subscribed,
		Settings: l.failoverSettings(),
		Logger:   c.Logger, Registerer: c.registry,
	})
	return l, err
}

// newRedisClient returns a client of Redis. It connects when it is first used. New connections use
// the user and password of the current configuration.
func newRedisClient(
	c config.Redis, tlsConfig func(context.Context) *tls.Config, current *atomic.Pointer[config.RateLimit],
) (*redisclient.Client, error) {
	return redisclient.New(redisclient.Options{
		Addresses:  c.Addresses,
		Topology:   redisclient.Topology(c.Mode),
		MasterName: c.MasterName,
		Credentials: func() (user, password string) {
			latest := current.Load().Redis
			return latest.Username, latest.Password.Reveal()
		},
		SentinelUsername: c.SentinelUsername,
		SentinelPassword: c.SentinelPassword.Reveal(),
		Database:         c.Database,
		TLS:              tlsConfig,
		PoolSize:         redisConnections,
		Timeout:          time.Duration(c.Timeout),
		DialTimeout:      c.DialTimeout(),
	})
}

// setConfig applies the settings that can change while running.
func (l *redisLimits) setConfig(c config.RateLimit) {
	before := l.config.Swap(&c).Redis
	if c.Redis.Username != before.Username || c.Redis.Password.Reveal() != before.Password.Reveal() {
		l.logger.Info("the credentials of Redis changed: new connections use them")
	}
	l.updateFailover()
}

// updateFailover applies the current settings of the failover.
func (l *redisLimits) updateFailover() {
	l.updating.Lock()
	defer l.updating.Unlock()
	l.Configure(l.failoverSettings())
}

// failoverSettings returns the settings of the failover for the current configuration and number of
// gateways.
func (l *redisLimits) failoverSettings() failover.Settings {
	c := l.config.Load()
	s := failover.Settings{Mode: ratelimit.Mode(c.OnStoreFailure), Gateways: int(c.ExpectedReplicas)}
	if c.ExpectedReplicas == config.Auto {
		s.Gateways = l.gateways.Count()
	}
	return s
}

// run runs the background tasks until ctx ends.
func (l *redisLimits) run(ctx context.Context) error {
	tasks, ctx := errgroup.WithContext(ctx)
	// A refund or reset by any gateway drops the cached denials of the token in this one.
	tasks.Go(func() error { return l.redis.Run(ctx, l.Store) })
	// A change of the number of gateways changes the share of each in an outage.
	tasks.Go(func() error {
		return l.gateways.Run(ctx, func(int, int) { l.updateFailover() })
	})
	tasks.Go(func() error {
		l.ProbeFirst(ctx) // so that an outage is logged at the start
		return l.Store.Run(ctx)
	})
	return tasks.Wait()
}

func (l *redisLimits) close() error {
	if err := l.client.Close(); err != nil {
		return fmt.Errorf("close the connections to Redis: %w", err)
	}
	return nil
}

// redisTLS returns the TLS configuration for connections to Redis and its sentinels, or nil for
// none.
func redisTLS(c config.ClientTLS, logger *slog.Logger) (func(context.Context) *tls.Config, error) {
	if !c.Enabled {
		return nil, nil
	}
	reloader, err := tlsFiles(c).Reloader(logger.With(slog.String("service", "redis")))
	if err != nil {
		return nil, fmt.Errorf("TLS to Redis: %w", err)
	}
	return reloader.Config, nil
}

func tlsFiles(c config.ClientTLS) certs.ClientFiles {
	return certs.ClientFiles{CAFile: string(c.CAFile), CertFile: string(c.CertFile), KeyFile: string(c.KeyFile),
		ServerName: c.ServerName}
}
