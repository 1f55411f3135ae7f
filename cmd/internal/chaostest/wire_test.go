package chaostest

import (
	"strings"
	"testing"

	"github.com/Shopify/toxiproxy/v2"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
)

// A wire is between a gateway and what is behind it, or between a client and a gateway. It can be cut, mended and made bad.
type link struct{ proxy *toxiproxy.Proxy }

// newLink lays a wire to an address.
func newLink(t *testing.T, to string) *link {
	t.Helper()
	server := toxiproxy.NewServer(toxiproxy.NewMetricsContainer(prometheus.NewRegistry()), zerolog.Nop())
	w := &link{proxy: toxiproxy.NewProxy(server, to, "127.0.0.1:0", to)}
	w.reconnect(t)
	t.Cleanup(w.cut)
	return w
}

// address is where the near end is. It stays the same when the wire is cut and mended.
func (w *link) address() string { return w.proxy.Listen }

// cut breaks all connections, and lets none be made.
func (w *link) cut() { w.proxy.Stop() }

func (w *link) reconnect(t *testing.T) {
	t.Helper()
	if err := w.proxy.Start(); err != nil {
		t.Fatal(err)
	}
}

// spoil makes the wire bad in one way, which is a toxic as toxiproxy's interface takes it:
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

// clear makes it good again.
func (w *link) removeToxics(t *testing.T) {
	t.Helper()
	w.proxy.Toxics.ResetToxics(t.Context())
}
