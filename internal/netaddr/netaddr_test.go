package netaddr_test

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"opsgate/internal/netaddr"
)

func TestNetworkOf(t *testing.T) {
	for address, want := range map[string][2]string{
		"192.0.2.77":              {"192.0.2.0/24", "192.0.2.0/24"},
		"::ffff:192.0.2.77":       {"192.0.2.0/24", "192.0.2.0/24"},
		"2001:db8:1:2:3:4:5:6":    {"2001:db8:1:2::/64", "2001:db8:1::/48"},
		"fe80::1%eth0":            {"fe80::/64", "fe80::/48"},
		"2001:db8:1:2:ffff::%en1": {"2001:db8:1:2::/64", "2001:db8:1::/48"},
	} {
		network := netaddr.NetworkOf(netip.MustParseAddr(address))
		if got := [2]string{network.String(), netaddr.SiteOfNetwork(network).String()}; got != want {
			t.Errorf("netaddr.NetworkOf(%s) = %v, want %v", address, got, want)
		}
	}
	if network := netaddr.NetworkOf(netip.Addr{}); network != (netip.Prefix{}) || netaddr.SiteOfNetwork(network) != network {
		t.Errorf("networkOf of the zero Addr = %v", network)
	}
}

func TestOnlyTrustedProxiesSetTheClientAddress(t *testing.T) {
	proxies := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("fd00::/8"), netip.MustParsePrefix("fe80::9/128")}
	cases := []struct {
		name, peer string
		forwarded  []string
		want       string
	}{
		{"no proxy", "192.0.2.1:1234", nil, "192.0.2.1"},
		{"a claim without a proxy", "192.0.2.1:1234", []string{"203.0.113.9"}, "192.0.2.1"},
		{"behind a proxy", "10.0.0.1:1234", []string{"203.0.113.9"}, "203.0.113.9"},
		{"behind two", "10.0.0.1:1234", []string{"203.0.113.9, 10.9.9.9"}, "203.0.113.9"},
		{"a claim before the proxy's entry", "10.0.0.1:1234", []string{"1.1.1.1, 203.0.113.9"}, "203.0.113.9"},
		{"a claim on a line of its own", "10.0.0.1:1234", []string{"1.1.1.1", "203.0.113.9"}, "203.0.113.9"},
		{"nothing forwarded", "10.0.0.1:1234", nil, "10.0.0.1"},
		{"not an address", "10.0.0.1:1234", []string{"203.0.113.9, unknown"}, "10.0.0.1"},
		{"only proxies", "10.0.0.1:1234", []string{"10.0.0.3,10.0.0.2"}, "10.0.0.3"},
		{"an empty hop", "10.0.0.1:1234", []string{"203.0.113.9,"}, "10.0.0.1"},
		{"with a port", "10.0.0.1:1234", []string{"203.0.113.9:5678"}, "203.0.113.9"},
		{"v6", "[fd00::1]:1234", []string{"2001:db8::1"}, "2001:db8::1"},
		{"v6 in brackets", "[fd00::1]:1234", []string{"[2001:db8::1]"}, "2001:db8::1"},
		{"v6 with a port", "[fd00::1]:1234", []string{"[2001:db8::1]:99"}, "2001:db8::1"},
		{"v4 in v6", "[::ffff:10.0.0.1]:1234", []string{"::ffff:203.0.113.9"}, "203.0.113.9"},
		{"link-local", "[fe80::1%eth0]:1234", []string{"2001:db8::1"}, "fe80::1"},
		{"behind a link-local proxy", "[fe80::9%eth0]:1234", []string{"2001:db8::1"}, "2001:db8::1"},
		{"peer without an address", "@", []string{"203.0.113.9"}, "0.0.0.0"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			if got := netaddr.ClientOf(c.peer, c.forwarded, proxies).String(); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}

// Entries of X-Forwarded-For before the last untrusted address are written by the client and must
// not change the result.
func FuzzForwardedFor(f *testing.F) {
	f.Add("10.0.0.1:1", "1.2.3.4, 10.0.0.2", "5.6.7.8")
	f.Add("[::1]:1", "[2001:db8::1%eth0]:80, ,", "unknown")
	f.Add("[::ffff:10.1.2.3]:65535", "::ffff:10.0.0.9:1", ",10.0.0.3")
	f.Add("192.0.2.1:1", "10.0.0.1", "10.0.0.1")
	trusted := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("fd00::/8")}
	contains := func(addr netip.Addr) bool {
		return slices.ContainsFunc(trusted, func(p netip.Prefix) bool { return p.Contains(addr) })
	}
	f.Fuzz(func(t *testing.T, peer, forwarded, claim string) {
		from := func(lines ...string) netip.Addr {
			return netaddr.ClientOf(peer, lines, trusted)
		}
		addr := from(forwarded)
		if !addr.IsValid() || addr.Is4In6() || addr.Zone() != "" && !strings.Contains(peer, addr.Zone()) {
			t.Errorf("%q, %q: %v", peer, forwarded, addr)
		}
		if by, err := netip.ParseAddrPort(peer); err == nil && !contains(by.Addr().Unmap()) && addr != by.Addr().Unmap() {
			t.Errorf("%q, %q: %v is a claim of the client", peer, forwarded, addr)
		}
		if got := from(strings.Split(forwarded, ",")...); got != addr {
			t.Errorf("%q, %q: %v in one line, %v in several", peer, forwarded, addr, got)
		}
		if contains(addr) {
			return // the last entry may be a trusted proxy
		}
		if got := from(claim, forwarded); got != addr {
			t.Errorf("%q, %q: %v, and %v with the claim %q", peer, forwarded, addr, got, claim)
		}
	})
}
