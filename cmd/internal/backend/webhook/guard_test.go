package webhook_test

import (
	"net"
	"net/netip"
	"net/url"
	"strings"
	"testing"

	"opsgate/cmd/internal/backend/delivery"
	"opsgate/cmd/internal/backend/webhook"
)

// forbidden are addresses of each kind that no webhook may reach.
var forbidden = []string{
	"127.0.0.1", "127.255.255.254", "0.0.0.0", "0.1.2.3", // loopback; this host
	"10.0.0.1", "172.16.0.1", "172.31.255.255", "192.168.1.1", // private
	"100.64.0.1", "100.127.255.255", "100.100.100.200", // carrier-grade NAT; the metadata service of Alibaba Cloud
	"169.254.0.1", "169.254.169.254", "169.254.170.2", // link-local; metadata services
	"192.0.0.192", "168.63.129.16", // metadata services of Oracle Cloud and Azure
	"192.0.2.1", "198.51.100.1", "203.0.113.1", "198.18.0.1", "192.88.99.1", // documentation, benchmarks, 6to4 relays
	"224.0.0.1", "239.255.255.255", "240.0.0.1", "255.255.255.255", // multicast, reserved, broadcast
	"::", "::1", "::7f00:1", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "::ffff:0:127.0.0.1", // unspecified, loopback, 4in6
	"64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe", "64:ff9b:1::a00:1", // NAT64
	"2002:7f00:1::1", "2001:0:7f00:1::1", "2001:db8::1", "3fff::1", // 6to4, Teredo, documentation
	"fc00::1", "fd00:ec2::254", "fd20:ce::254", // unique local; metadata services of AWS and Google Cloud
	"fe80::1", "fec0::1", "ff02::1", "ff0e::1", "100::1", "5f00::1", // link-local, site-local, multicast, discard, SRv6
}

// A name that leads to a forbidden address is refused before a connection is made.
func TestForbiddenAddressesAreNotConnectedTo(t *testing.T) {
	t.Parallel()
	n := newInternet(t)
	for _, address := range forbidden {
		n.resolve("inside.example", address)
		m := exampleMessage()
		m.Subscriber.Address = "https://inside.example/" + secretPath
		got, err := n.send(m, 0)
		connected := netip.MustParseAddr(address).Unmap().String() // Go connects to 4in6 addresses with IPv4
		if want := "address " + net.JoinHostPort(connected, "443") + " is not allowed"; got != want || delivery.KindOf(err) == delivery.Permanent {
			t.Errorf("%s: got %q, want %q", address, got, want)
		}
	}
}

// The address is checked at each connection, and each message has its own: a name that changes from
// a public to a forbidden address between two messages is refused.
func TestSecondLookupLeadsToLoopback(t *testing.T) {
	t.Parallel()
	n := newInternet(t)
	requests := make(chan request, 3)
	m := n.receive(recorded(requests))
	sender := n.sender(0, m)
	for i, lookup := range [][]string{{receiverAddress}, {"127.0.0.1"}, {"127.0.0.1", receiverAddress}} { // of both, only the public one is used
		n.resolve(host, lookup...)
		err := sender.Send(t.Context(), m)
		if refused := len(lookup) == 1 && lookup[0] != receiverAddress; refused != (err != nil) || refused && !strings.Contains(err.Error(), "is not allowed") {
			t.Errorf("lookup %d: got %v", i, err)
		}
	}
	if len(requests) != 2 {
		t.Errorf("%d requests", len(requests))
	}
}

// A URL that CheckURL accepts has no address as its host in any spelling, and leads nowhere if its
// name has a forbidden address. One that it refuses is not called at all.
func FuzzCheckURL(f *testing.F) {
	for _, seed := range []string{
		"https://hooks.example/path?query", "https://127.1/", "https://[::ffff:127.0.0.1]/", "https://2130706433/", "https://0x7f.1/",
		"https://127.0.0.1.nip.example/", "https://hooks.example:443", "https://hooks.example:0443", "https://a@hooks.example",
		"https://hooks.example\\@127.0.0.1/", "https://hooks.example%00.b.example/", "https:/\\/127.0.0.1", "https://[::1%25lo]/",
		"https://１２７.0.0.1/", "https://hooks.example#@127.0.0.1", "https://127.0.0.0x1/", "https://localhost/", "https://a.b?c@d",
		"http://hooks.example/", "https://hooks.example/\r\nX: y", "https://hooks.example/?long=" + strings.Repeat("a", 2000), "://secret",
	} {
		f.Add(seed)
	}
	n := newInternet(f)
	n.resolve("", "127.0.0.1")
	n.resolve(host, "127.0.0.1")
	sender := n.sender(0)
	f.Fuzz(func(t *testing.T, text string) {
		m := exampleMessage()
		m.Subscriber.Address = text
		refused := webhook.CheckURL(text, false)
		err := sender.Send(t.Context(), m)
		if refused != nil {
			if delivery.KindOf(err) != delivery.Permanent || len(text) > 12 && strings.Contains(refused.Error(), text) {
				t.Fatalf("CheckURL: %v; Send: %v", refused, err)
			}
			return
		}
		if err == nil || err.Error() != "address 127.0.0.1:443 is not allowed" {
			t.Fatalf("Send: %v", err)
		}
		u := must(url.Parse(text))(t)
		last := u.Hostname()[strings.LastIndexByte(u.Hostname(), '.')+1:]
		if u.Scheme != "https" || u.Port() != "" && u.Port() != "443" || !strings.HasPrefix(text[8:], u.Host) || '0' <= last[0] && last[0] <= '9' {
			t.Fatalf("accepted as %#v", u)
		}
	})
}
