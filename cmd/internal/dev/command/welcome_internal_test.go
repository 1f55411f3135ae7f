package command

import (
	"net"
	"strings"
	"testing"

	"opsgate/cmd/internal/backend/demo"
)

// The tokens are in the source code, so the warning comes before all addresses.
func TestWelcomeWarnsFirstOfAddressesOutsideLoopback(t *testing.T) {
	for address, want := range map[string]bool{"127.0.0.1": false, "127.8.8.8": false, "::1": false, "0.0.0.0": true, "::": true, "192.0.2.1": true} {
		open := &net.TCPAddr{IP: net.ParseIP(address), Port: 8080}
		loopback := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 9090}
		s := system{BaseURL: "http://api", Public: public(open, loopback), Tokens: []demo.Token{{Name: "full", Text: "ops_live_x"}}}
		warning, rest, _ := strings.Cut(welcome(s, flags{}), "  API ")
		if !strings.Contains(rest, "http://api") || want != strings.Contains(warning, "WARNING: "+open.String()+" can be reached from the network") ||
			want != strings.Contains(warning, "tokens below are public") || strings.Contains(warning, loopback.String()) {
			t.Errorf("%s: %q", address, warning)
		}
	}
}
