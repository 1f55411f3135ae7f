package chaostest

import (
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// resolved is the row of what stands beside the table.
const dnsRow = "DNS"

// A resolver is a name server that can be told to answer nothing, or that no name has an address.
type resolver struct {
	address   string
	silent    atomic.Bool
	addresses atomic.Pointer[[]string]
}

// startResolver runs a name server to which every name has the same IPv4 addresses.
func startResolver(t *testing.T, addresses ...string) *resolver {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
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
			if answer, err := answerQuestion(buffer[:n], *r.addresses.Load()); err == nil {
				_, _ = conn.WriteTo(answer, peer)
			}
		}
	})
	t.Cleanup(func() {
		_ = conn.Close()
		answering.Wait()
	})
	return r
}

// Names are needed to find a service, and not to go on talking to it. A gateway that starts without them serves when they are there.
func TestDNSUnavailable(t *testing.T) {
	parallel(t)
	b := startBackend(t)
	names := startResolver(t, host(t, b.address))
	behind := everyService("dns://" + names.address + "/backend.test:" + port(t, b.address))
	g := startGateway(t, behind, unlimited)
	all := callers{
		client: newClient(t, nil), token: always(tokens(t)["full"].Text), rate: 50, number: 8, url: always(somewhere(g.url)),
	}
	stop := all.start(t)
	sleep(t, time.Second/2)
	names.silent.Store(true)
	late := launchGateway(t, behind, unlimited)
	late.waitUntilServing(t)
	if status, header := me(t.Context(), all.client, late.url, tokens(t)["full"].Text); status != http.StatusServiceUnavailable || header.Get("Retry-After") == "" {
		t.Errorf("a gateway that cannot find its services answers %d, retry-after %q", status, header.Get("Retry-After"))
	}
	sleep(t, either(4*time.Second, time.Second))
	noneFailed(t, dnsRow, stop())

	names.silent.Store(false)
	begun := time.Now()
	late.waitUntilReady(t)
	within(t, dnsRow, "until a gateway that had started without names was ready, once it had them", time.Since(begun), 30*time.Second)
}

// The name of a service has no address any more for a while, as when it is deployed anew under another one.
func TestDNSNameWithoutAddress(t *testing.T) {
	parallel(t)
	b := startBackend(t)
	names := startResolver(t, host(t, b.address))
	g := startGateway(t, everyService("dns://"+names.address+"/backend.test:"+port(t, b.address)), unlimited)
	names.addresses.Store(&[]string{})
	b.end(t)
	client, token := newClient(t, nil), tokens(t)["full"].Text
	eventually(t, "requests fail as they should", func() bool {
		return fetch(t.Context(), client, somewhere(g.url), token).status == http.StatusServiceUnavailable
	})
	b.restart(t)
	names.addresses.Store(&[]string{host(t, b.address)})
	begun := time.Now()
	eventually(t, "requests succeed again", func() bool { return fetch(t.Context(), client, somewhere(g.url), token).isAdmitted() })
	within(t, dnsRow, "until a service was found under its name again", time.Since(begun), 40*time.Second)
}
