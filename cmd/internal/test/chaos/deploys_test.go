package chaos

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"opsgate/internal/testkit"
	"opsgate/ratelimit/redisstore/redistest"
)

// clientBalancer polls /readyz of each gateway and distributes requests to the ready ones in turn.
type clientBalancer struct {
	gateways []target
	turn     atomic.Int64
}

// target is a gateway, which keeps its addresses when it restarts.
type target struct {
	url, admin string
	ready      *atomic.Bool
}

// newClientBalancer returns a balancer that polls every 50 ms until the test ends.
func newClientBalancer(t *testing.T, gateways []*gateway) *clientBalancer {
	t.Helper()
	c := &clientBalancer{}
	for _, g := range gateways {
		c.gateways = append(c.gateways, target{url: g.url, admin: g.admin, ready: &atomic.Bool{}})
	}
	c.poll(t.Context())
	ctx, cancel := context.WithCancel(t.Context())
	var polling sync.WaitGroup
	polling.Go(func() {
		tick := time.NewTicker(50 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				c.poll(ctx)
			case <-ctx.Done():
				return
			}
		}
	})
	t.Cleanup(func() {
		cancel()
		polling.Wait()
	})
	return c
}

func (c *clientBalancer) poll(ctx context.Context) {
	for _, g := range c.gateways {
		g.ready.Store(fetch(ctx, http.DefaultClient, g.admin+"/readyz", "").status == http.StatusOK)
	}
}

// url returns the URL of the gateway of the next request.
func (c *clientBalancer) url() string {
	for range c.gateways {
		if g := c.gateways[int(c.turn.Add(1))%len(c.gateways)]; g.ready.Load() {
			return g.url
		}
	}
	return c.gateways[0].url
}

// allReady reports whether all gateways get requests.
func (c *clientBalancer) allReady() bool {
	return !slices.ContainsFunc(c.gateways, func(g target) bool { return !g.ready.Load() })
}

// shutdownTimes are the times of a shutdown since SIGTERM; 0 for not observed.
type shutdownTimes struct {
	unready, closed, exited time.Duration
}

// shutDown sends SIGTERM to a gateway and measures its shutdown.
func shutDown(t *testing.T, g *gateway) (d shutdownTimes) {
	t.Helper()
	begun := time.Now()
	g.Signal(t, syscall.SIGTERM)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for ; d.exited == 0; <-tick.C {
		if d.unready == 0 && fetch(t.Context(), http.DefaultClient, g.admin+"/readyz", "").status != http.StatusOK {
			d.unready = time.Since(begun)
		}
		if d.closed == 0 && !acceptsConnections(t, g.socket()) {
			d.closed = time.Since(begun)
		}
		select {
		case <-g.Exited:
			d.exited = time.Since(begun)
		default:
			if time.Since(begun) > maxWait {
				t.Fatal("a gateway does not exit")
			}
		}
	}
	return d
}

func acceptsConnections(t *testing.T, address string) bool {
	t.Helper()
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", address)
	if err != nil {
		return false
	}
	_ = conn.Close()
	return true
}

// waitToDrain is many polling intervals of clientBalancer.
func waitToDrain() time.Duration { return either(1500*time.Millisecond, 5*time.Second) }

func draining() string { return fmt.Sprintf("shutdown: {drain_wait: %v}\n", waitToDrain()) }

// tenASecond returns limits that only that token reaches.
func tenASecond(limited string) string {
	return fmt.Sprintf("  limits: [{requests: 1000000, per: 1s}]\n  tokens:\n    %s: {limits: [{requests: 10, per: 1s}]}\n", limited)
}

// checkTenASecond checks that the token "full" reached its limit, and never exceeded it.
func checkTenASecond(t *testing.T, all responses) {
	t.Helper()
	limited := all.to("full")
	atMost(t, "admitted of one token in any second, of 10", limited.maxIn(time.Second), 10)
	if len(limited.refused()) == 0 {
		t.Error("its limit was not reached")
	}
}

// Each of three backends and then each of two gateways is stopped under load and started again. No
// request fails, and limits hold.
func TestRollingRestart(t *testing.T) {
	skipIfShort(t)
	parallel(t)
	public := newPublicTLS(t)
	for name, row := range map[string]struct {
		config string
		client *http.Client
	}{
		"over HTTP/1.1":       {"", newClient(t, nil)},
		"over HTTP/2 and TLS": {public.config(), newClient(t, public.roots())},
	} {
		t.Run(name, func(t *testing.T) {
			parallel(t)
			backends, services := startReplicas(t, 3)
			config := inRedis(redistest.Start(t), tenASecond(tokens(t)["full"].ID)) + draining() + row.config
			gateways := startPair(t, "opsgate", everyService(services), config)
			c := newClientBalancer(t, gateways)
			stop := load{
				base: c.url, client: row.client, tokens: texts(t, "full", "read", "servers:read", "monitors:read", "incidents:read"),
				paths: reads(), rate: either(500.0, 100), clients: 32,
			}.start(t)
			for _, b := range backends {
				b.End(t)
				b.restart(t)
				sleep(t, either(2*time.Second, time.Second/2))
			}
			for _, g := range gateways {
				d := shutDown(t, g)
				if d.unready == 0 || d.closed < d.unready+waitToDrain()/2 {
					t.Errorf("not ready after %v, listener closed after %v", d.unready, d.closed)
				}
				report(t, "until a stopping gateway was not ready, and its listener closed", []time.Duration{tenths(d.unready), tenths(d.closed)}, "in this order")
				within(t, "until it had exited", d.exited, 30*time.Second)
				g.restart(t)
				testkit.Eventually(t, "the gateway gets requests again", c.allReady)
				sleep(t, either(2*time.Second, time.Second/2))
			}
			all := stop()
			noneFailed(t, all)
			checkTenASecond(t, all)
		})
	}
}
