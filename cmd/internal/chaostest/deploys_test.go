package chaostest

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// A clientBalancer is the balancer of clients that have none before them: it looks at /readyz of each gateway, and they ask those in turn that are
// ready.
type clientBalancer struct {
	gateways []reachable
	turn     atomic.Int64
}

// A reachable gateway stays at its addresses when it is restarted.
type reachable struct {
	url, admin string
	ready      *atomic.Bool
}

// chosen makes one that looks every 50 ms until the test ends.
func newClientBalancer(t *testing.T, gateways []*gateway, url func(*gateway) string) *clientBalancer {
	t.Helper()
	c := &clientBalancer{}
	for _, g := range gateways {
		c.gateways = append(c.gateways, reachable{url: url(g), admin: g.admin, ready: &atomic.Bool{}})
	}
	c.look(t.Context())
	ctx, cancel := context.WithCancel(t.Context())
	var looking sync.WaitGroup
	looking.Go(func() {
		tick := time.NewTicker(50 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				c.look(ctx)
			case <-ctx.Done():
				return
			}
		}
	})
	t.Cleanup(func() {
		cancel()
		looking.Wait()
	})
	return c
}

func (c *clientBalancer) look(ctx context.Context) {
	for _, g := range c.gateways {
		g.ready.Store(fetch(ctx, http.DefaultClient, g.admin+"/readyz", "").status == http.StatusOK)
	}
}

// url is that of the next request.
func (c *clientBalancer) url() string {
	for range c.gateways {
		if g := c.gateways[int(c.turn.Add(1))%len(c.gateways)]; g.ready.Load() {
			return somewhere(g.url)
		}
	}
	return somewhere(c.gateways[0].url)
}

// A shutdownTimes is what others see of a gateway that is told to end.
type shutdownTimes struct {
	unready, closed, exited time.Duration // since it was told; for none 0
}

// depart tells a gateway to end, and watches it.
func shutDown(t *testing.T, g *gateway) (d shutdownTimes) {
	t.Helper()
	begun := time.Now()
	g.signal(t, syscall.SIGTERM)
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	for ; d.exited == 0; <-tick.C {
		if d.unready == 0 && fetch(t.Context(), http.DefaultClient, g.admin+"/readyz", "").status != http.StatusOK {
			d.unready = time.Since(begun)
		}
		if d.closed == 0 && !listens(t, strings.TrimPrefix(g.url, "http://")) {
			d.closed = time.Since(begun)
		}
		select {
		case <-g.exited:
			d.exited = time.Since(begun)
		default:
			if time.Since(begun) > maxWait {
				t.Fatal("a gateway does not end")
			}
		}
	}
	return d
}

func listens(t *testing.T, address string) bool {
	t.Helper()
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", address)
	if err != nil {
		return false
	}
	_ = conn.Close()
	return true
}

// waitToDrain is many of the clientBalancer's looks.
func waitToDrain() time.Duration { return either(1500*time.Millisecond, 2*time.Second) }

func draining() string { return fmt.Sprintf("shutdown: {drain_wait: %v}\n", waitToDrain()) }

// Each of two gateways is told to end under load, and started again.
func TestGatewaysRestartedUnderLoad(t *testing.T) {
	parallel(t)
	t.Run("over HTTP/1.1", func(t *testing.T) {
		gateways := startTwo(t, unlimited+draining())
		replaceEach(t, gateways, newClientBalancer(t, gateways, func(g *gateway) string { return g.url }), newClient(t, nil))
	})
	t.Run("over HTTP/2 and TLS", func(t *testing.T) {
		public := newPublicTLS(t)
		gateways := startTwo(t, unlimited+draining()+public.config())
		replaceEach(t, gateways, newClientBalancer(t, gateways, (*gateway).secure), newClient(t, public.roots()))
	})
}

func replaceEach(t *testing.T, gateways []*gateway, c *clientBalancer, client *http.Client) {
	t.Helper()
	each := callers{client: client, token: always(tokens(t)["full"].Text), rate: either(500.0, 100), number: 32, url: c.url}
	stop := each.start(t)
	for _, g := range gateways {
		sleep(t, either(2*time.Second, time.Second/2))
		d := shutDown(t, g)
		if d.unready == 0 || d.closed < d.unready+waitToDrain()/2 || g.err != nil {
			t.Errorf("told to end: not ready after %v, listener closed after %v, exit: %v", d.unready, d.closed, g.err)
		}
		report(t, "16", "until a gateway that ends was not ready, and its listener closed", []time.Duration{tenths(d.unready), tenths(d.closed)}, "in this order")
		within(t, "16", "until it had exited", d.exited, 30*time.Second)
		g.restart(t)
		eventually(t, "the gateway is asked again", func() bool { return c.gateways[0].ready.Load() && c.gateways[1].ready.Load() })
	}
	sleep(t, either(2*time.Second, time.Second/2))
	noneFailed(t, "16", stop())
}
