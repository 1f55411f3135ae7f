package wiring

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/net/http/httpproxy"

	"opsgate/cmd/internal/gate/config"
	"opsgate/ratelimit/membership"
)

// A Check finds why a gateway with the configuration would not start on this machine, or not work
// in this network.
type Check struct {
	Loaded config.Loaded
	OK     func(key, what string) // called for what works, one call at a time

	mu       sync.Mutex
	problems config.Problems
}

// report records whether what a key configures works. optional states that the gateway serves
// correctly without it.
func (c *Check) report(key, what string, err error, optional bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err == nil {
		c.OK(key, what)
		return
	}
	p := c.Loaded.Problem(key, what+": "+strings.ReplaceAll(err.Error(), "\n", "; "))
	p.Warning = optional
	c.problems = append(c.problems, p)
}

// Machine returns what keeps [Listen] from starting on this machine: addresses that cannot be
// bound.
func (c *Check) Machine(ctx context.Context) config.Problems {
	for _, l := range []struct{ key, address string }{{"listen", c.Loaded.Listen},
		{"admin.listen", c.Loaded.Admin.Listen}} {
		listener, err := new(net.ListenConfig).Listen(ctx, "tcp", l.address)
		if err == nil {
			err = listener.Close()
		}
		// A running gateway may use the address. With a socket of systemd, the gateway needs no
		// right to bind it.
		c.report(l.key, "binding the address", err, errors.Is(err, syscall.EADDRINUSE) || errors.Is(err, syscall.EACCES))
	}
	return c.problems
}

// Live calls every dependency of a gateway once, and returns all problems found so far. ctx must
// have a deadline.
func (c *Check) Live(ctx context.Context) config.Problems {
	if err := c.live(ctx); err != nil {
		c.problems = append(c.problems, config.Problem{Text: err.Error()})
	}
	return c.problems
}

func (c *Check) live(ctx context.Context) (err error) {
	loaded := c.Loaded
	base, err := newCommon(Options{Loaded: loaded, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	var opened closers
	defer func() { err = errors.Join(err, opened.close()) }()
	d, err := newDependencies(base, &opened)
	if err != nil {
		return err
	}
	var calls sync.WaitGroup
	for service := range d.clients.Services() {
		calls.Go(func() { c.report("upstreams."+service+".address", "connection", d.clients.Probe(ctx, service), false) })
	}
	if limits := d.limiter.inRedis; limits != nil {
		calls.Go(func() { c.redis(ctx, limits) })
	}
	if loaded.Tracing.Endpoint != "" {
		calls.Go(func() { c.report("tracing.endpoint", "connection", dialCollector(ctx, loaded.Tracing), false) })
	}
	calls.Wait()
	return nil
}

// redis calls Redis as a gateway does.
func (c *Check) redis(ctx context.Context, limits *redisLimits) {
	membership.Check(ctx, limits.client, c.Loaded.RateLimit.Redis.KeyPrefix, func(what string, err error, optional bool) {
		c.report("rate_limit.redis", what, err, optional)
	})
}

// dialCollector connects to the collector of traces, or to the proxy of the environment through
// which the exporter reaches it.
func dialCollector(ctx context.Context, c config.Tracing) error {
	endpoint, err := url.Parse(c.Endpoint)
	settings, tlsErr := collectorTLS(c)
	if err := errors.Join(err, tlsErr); err != nil {
		return err
	}
	dial := new(net.Dialer).DialContext
	proxy, err := collectorProxy(endpoint)
	switch {
	case err != nil:
		return err
	case proxy != nil:
		endpoint = proxy
	case strings.HasSuffix(endpoint.Scheme, "s"):
		dial = (&tls.Dialer{Config: settings}).DialContext
	}
	address := endpoint.Host
	if endpoint.Port() == "" {
		address = net.JoinHostPort(endpoint.Hostname(), endpoint.Scheme) // the port by its name: http or https
	}
	connection, err := dial(ctx, "tcp", address)
	switch {
	case err != nil && proxy != nil:
		return fmt.Errorf("the proxy of the environment: %w", err)
	case err != nil:
		return err
	}
	return connection.Close()
}

// collectorProxy returns the proxy of the environment that the exporter uses for the endpoint, or
// nil. With and without TLS, gRPC uses the proxy for https.
func collectorProxy(endpoint *url.URL) (*url.URL, error) {
	target := *endpoint
	if strings.HasPrefix(target.Scheme, "grpc") {
		target.Scheme = "https"
	}
	return httpproxy.FromEnvironment().ProxyFunc()(&target)
}
