package wiring_test

import (
	"io"
	"net"
	"testing"

	"opsgate/internal/testkit"
)

// X-Forwarded-For counts by the address in the header of the PROXY protocol, not by the peer's.
func TestProxyProtocolPassesOnTheClient(t *testing.T) {
	r := start(t, limits(100)+"http: {proxy_protocol: {from: [127.0.0.0/8]}}\ntrusted_proxies: [127.0.0.0/8, 192.0.2.0/24]\n")
	for i, test := range []struct{ source, client string }{
		{"203.0.113.7", "203.0.113.7"}, {"192.0.2.7", "198.51.100.7"},
	} {
		conn, err := net.Dial("tcp", r.Address().String())
		testkit.Must(t, err)
		_, err = io.WriteString(conn, "PROXY TCP4 "+test.source+" 127.0.0.1 4711 443\r\n"+
			"GET /v1/me HTTP/1.1\r\nHost: x\r\nX-Forwarded-For: 198.51.100.7\r\nConnection: close\r\n\r\n")
		testkit.Must(t, err)
		_, err = io.ReadAll(conn)
		testkit.Must(t, err)
		testkit.Must(t, conn.Close())
		testkit.Eventually(t, "the request is logged", func() bool { return len(r.lines("request")) > i })
		if got := r.lines("request")[i]; got["status"] != 401.0 || got["client"] != test.client {
			t.Errorf("from %s: got %v, want %s", test.source, got, test.client)
		}
	}
}
