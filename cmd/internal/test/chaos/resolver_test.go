package chaos

import (
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// dnsRow is the row of DNS tests, which has no number.
const dnsRow = "DNS"

// resolver is a DNS server that can be silent, or without addresses.
type resolver struct {
	address   string
	silent    atomic.Bool
	addresses atomic.Pointer[[]string]
}

// startResolver runs a DNS server that returns the same IPv4 addresses for each name.
func startResolver(t *testing.T, addresses ...string) *resolver {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	must(t, err)
	r := &resolver{address: conn.LocalAddr().String()}
	r.addresses.Store(&addresses)
	var answering sync.WaitGroup
	answering.Go(func() {
		for buffer := make([]byte, 512); ; {
			n, peer, err := conn.ReadFrom(buffer)
			if err != nil {
				return
			}
			if r.silent.Load() {
				continue
			}
			if response, err := answerQuestion(buffer[:n], *r.addresses.Load()); err == nil {
				_, _ = conn.WriteTo(response, peer)
			}
		}
	})
	t.Cleanup(func() {
		_ = conn.Close()
		answering.Wait()
	})
	return r
}

// Existing connections do not need DNS. A gateway that starts without DNS serves once DNS is available.
func TestDNSUnavailable(t *testing.T) {
	parallel(t)
	b := startBackend(t)
	names := startResolver(t, host(t, b.address))
	behind := everyService("dns://" + names.address + "/backend.test:" + port(t, b.address))
	g := startGateway(t, behind, unlimited)
	all := load{gateways: []*gateway{g}, client: newClient(t, nil), rate: 50, clients: 8}
	stop := all.start(t)
	sleep(t, time.Second/2)
	names.silent.Store(true)
	late := launchGateway(t, behind, unlimited)
	late.waitUntilServing(t)
	if a := me(t.Context(), all.client, late.url, tokens(t)["full"].Text); a.status != http.StatusServiceUnavailable || a.retryAfter == "" {
		t.Errorf("a gateway without DNS answers %d, retry-after %q", a.status, a.retryAfter)
	}
	sleep(t, either(4*time.Second, time.Second))
	noneFailed(t, dnsRow, stop())

	names.silent.Store(false)
	begun := time.Now()
	late.waitUntilReady(t)
	within(t, dnsRow, "until a gateway that started without DNS was ready, after DNS was available", time.Since(begun), 30*time.Second)
}

// The name of a service has no address for some time, for example during a new deployment.
func TestDNSNameWithoutAddress(t *testing.T) {
	parallel(t)
	b := startBackend(t)
	names := startResolver(t, host(t, b.address))
	g := startGateway(t, everyService("dns://"+names.address+"/backend.test:"+port(t, b.address)), unlimited)
	names.addresses.Store(&[]string{})
	b.End(t)
	client, token := newClient(t, nil), tokens(t)["full"].Text
	eventually(t, "requests get 503", func() bool {
		return fetch(t.Context(), client, g.url+unknownServer, token).status == http.StatusServiceUnavailable
	})
	b.restart(t)
	names.addresses.Store(&[]string{host(t, b.address)})
	begun := time.Now()
	eventually(t, "requests succeed again", func() bool { return fetch(t.Context(), client, g.url+unknownServer, token).isAdmitted() })
	within(t, dnsRow, "until requests succeeded, after the name had an address", time.Since(begun), 40*time.Second)
}
