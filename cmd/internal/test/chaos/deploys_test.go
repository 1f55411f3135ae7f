package chaos

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"opsgate/backendclient/testkit"
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

// Each of two gateways is stopped under load and started again.
func TestGatewaysRestartedUnderLoad(t *testing.T) {
	skipIfShort(t)
	parallel(t)
	t.Run("over HTTP/1.1", func(t *testing.T) {
		parallel(t)
		gateways := startTwo(t, unlimited+draining())
		replaceEach(t, gateways, newClientBalancer(t, gateways), newClient(t, nil))
	})
	t.Run("over HTTP/2 and TLS", func(t *testing.T) {
		parallel(t)
		public := newPublicTLS(t)
		gateways := startTwo(t, unlimited+draining()+public.config())
		replaceEach(t, gateways, newClientBalancer(t, gateways), newClient(t, public.roots()))
	})
}

func replaceEach(t *testing.T, gateways []*gateway, c *clientBalancer, client *http.Client) {
	t.Helper()
	stop := load{base: c.url, client: client, rate: either(500.0, 100), clients: 32}.start(t)
	for _, g := range gateways {
		sleep(t, either(2*time.Second, time.Second/2))
		d := shutDown(t, g)
		if d.unready == 0 || d.closed < d.unready+waitToDrain()/2 {
			t.Errorf("not ready after %v, listener closed after %v", d.unready, d.closed)
		}
		report(t, "until a stopping gateway was not ready, and its listener closed", []time.Duration{tenths(d.unready), tenths(d.closed)}, "in this order")
		within(t, "until it had exited", d.exited, 30*time.Second)
		g.restart(t)
		testkit.Eventually(t, "the gateway gets requests again", func() bool { return c.gateways[0].ready.Load() && c.gateways[1].ready.Load() })
	}
	sleep(t, either(2*time.Second, time.Second/2))
	noneFailed(t, stop())
}
