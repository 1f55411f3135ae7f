package chaos

import (
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/Shopify/toxiproxy/v2"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"opsgate/backendclient/testkit"
	"opsgate/backendclient/testkit/dnstest"
)

// link is a TCP proxy that tests can cut, reconnect and impair.
type link struct{ proxy *toxiproxy.Proxy }

// newLink returns a link to an address.
func newLink(t *testing.T, to string) *link {
	t.Helper()
	return newLinkAt(t, testkit.FreeAddress(t), to)
}

// newLinkAt returns a link from one address to another.
func newLinkAt(t *testing.T, from, to string) *link {
	t.Helper()
	server := toxiproxy.NewServer(toxiproxy.NewMetricsContainer(prometheus.NewRegistry()), zerolog.Nop())
	w := &link{proxy: toxiproxy.NewProxy(server, to, from, to)}
	w.reconnect(t)
	t.Cleanup(w.cut)
	return w
}

// address returns the address that clients connect to. It does not change when the link is cut and reconnected.
func (w *link) address() string { return w.proxy.Listen }

// cut closes all connections and refuses new ones.
func (w *link) cut() { w.proxy.Stop() }

func (w *link) reconnect(t *testing.T) {
	t.Helper()
	testkit.Must(t, w.proxy.Start())
}

// addToxic impairs the link with a toxic of toxiproxy:
//
//	{"type": "latency", "attributes": {"latency": 100, "jitter": 20}}
//	{"type": "limit_data", "stream": "upstream", "attributes": {"bytes": 100}}
//	{"type": "reset_peer", "attributes": {"timeout": 0}}
func (w *link) addToxic(t *testing.T, toxic string) {
	t.Helper()
	if _, err := w.proxy.Toxics.AddToxicJson(strings.NewReader(toxic)); err != nil {
		t.Fatal(err)
	}
}

// removeToxics removes all impairments.
func (w *link) removeToxics(t *testing.T) {
	t.Helper()
	w.proxy.Toxics.ResetToxics(t.Context())
}

// Existing connections do not need DNS. A gateway that starts without DNS serves once DNS is available.
func TestDNSUnavailable(t *testing.T) {
	skipIfShort(t)
	parallel(t)
	b := startBackend(t)
	names := dnstest.Start(t, dnstest.Addresses(host(t, b.address)))
	behind := everyService("dns://" + names.Address + "/backend.test:" + port(t, b.address))
	g := startGateway(t, behind, unlimited)
	all := load{gateways: []*gateway{g}, client: newClient(t, nil), rate: 50, clients: 8}
	stop := all.start(t)
	sleep(t, time.Second/2)
	names.Set(nil)
	late := launchGateway(t, behind, unlimited)
	late.waitUntilServing(t)
	if a := me(t.Context(), all.client, late.url, tokens(t)["full"].Text); a.status != http.StatusServiceUnavailable || a.retryAfter == "" {
		t.Errorf("a gateway without DNS answers %d, retry-after %q", a.status, a.retryAfter)
	}
	sleep(t, either(4*time.Second, time.Second))
	noneFailed(t, stop())

	names.Set(dnstest.Addresses(host(t, b.address)))
	begun := time.Now()
	late.waitUntilReady(t)
	within(t, "until a gateway that started without DNS was ready, after DNS was available", time.Since(begun), 30*time.Second)
}

// The name of a service has no address for some time, for example during a new deployment.
func TestDNSNameWithoutAddress(t *testing.T) {
	parallel(t)
	b := startBackend(t)
	names := dnstest.Start(t, dnstest.Addresses(host(t, b.address)))
	g := startGateway(t, everyService("dns://"+names.Address+"/backend.test:"+port(t, b.address)), unlimited)
	names.Set(dnstest.Addresses())
	b.End(t)
	client, token := newClient(t, nil), tokens(t)["full"].Text
	testkit.Eventually(t, "requests get 503", func() bool {
		return fetch(t.Context(), client, g.url+unknownServer, token).status == http.StatusServiceUnavailable
	})
	b.restart(t)
	names.Set(dnstest.Addresses(host(t, b.address)))
	begun := time.Now()
	testkit.Eventually(t, "requests succeed again", func() bool { return fetch(t.Context(), client, g.url+unknownServer, token).isAdmitted() })
	within(t, "until requests succeeded, after the name had an address", time.Since(begun), 40*time.Second)
}

func host(t *testing.T, address string) string {
	t.Helper()
	host, _ := split(t, address)
	return host
}

func port(t *testing.T, address string) string {
	t.Helper()
	_, port := split(t, address)
	return port
}

func split(t *testing.T, address string) (host, port string) {
	t.Helper()
	host, port, err := net.SplitHostPort(address)
	testkit.Must(t, err)
	return host, port
}
