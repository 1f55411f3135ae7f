package chaos

import (
	"net"
	"strings"
	"testing"

	"github.com/Shopify/toxiproxy/v2"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"opsgate/internal/testkit"
)

// link is a TCP proxy that tests can cut, reconnect and impair.
type link struct {
	proxy *toxiproxy.Proxy
	from  string // as proxy.Listen, which the proxy writes at each start
}

// newLink returns a link to an address.
func newLink(t *testing.T, to string) *link {
	t.Helper()
	return newLinkAt(t, testkit.FreeAddress(t), to)
}

// newLinkAt returns a link from one address to another.
func newLinkAt(t *testing.T, from, to string) *link {
	t.Helper()
	server := toxiproxy.NewServer(toxiproxy.NewMetricsContainer(prometheus.NewRegistry()), zerolog.Nop())
	w := &link{proxy: toxiproxy.NewProxy(server, to, from, to), from: from}
	w.reconnect(t)
	t.Cleanup(w.cut)
	return w
}

// address returns the address that clients connect to. It does not change when the link is cut and
// reconnected.
func (w *link) address() string { return w.from }

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
