package chaos

import (
	"strings"
	"testing"

	"github.com/Shopify/toxiproxy/v2"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
)

// link is a TCP proxy that tests can cut, reconnect and impair.
type link struct{ proxy *toxiproxy.Proxy }

// newLink returns a link to an address.
func newLink(t *testing.T, to string) *link {
	t.Helper()
	server := toxiproxy.NewServer(toxiproxy.NewMetricsContainer(prometheus.NewRegistry()), zerolog.Nop())
	w := &link{proxy: toxiproxy.NewProxy(server, to, "127.0.0.1:0", to)}
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
	must(t, w.proxy.Start())
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
