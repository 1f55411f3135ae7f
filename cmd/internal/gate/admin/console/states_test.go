package console_test

import (
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"

	"opsgate/backendclient/testkit"
	"opsgate/backendclient/tlsfiles/tlsfilestest"
)

// startWith starts a gateway with another line of upstreams, in which FLEET and OTHERS stand for the addresses of the services.
func startWith(t *testing.T, upstreams, more string) *gateway {
	t.Helper()
	g := &gateway{services: startServices(t)}
	g.configure(t, strings.NewReplacer("FLEET", g.fleet, "OTHERS", g.Address).Replace("upstreams: {"+upstreams+"}\n"+more))
	return g
}

// The headline, what clients see, and the first action are on the page in each state that operators meet first.
func TestPageShowsCauseImpactAndAction(t *testing.T) {
	const usual = `fleet: {address: "FLEET"}, monitoring: &others {address: "OTHERS"}, incident: *others, audit: *others, identity: *others`
	wrong := grpc.NewServer()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	testkit.Must(t, err)
	go func() { _ = wrong.Serve(listener) }()
	t.Cleanup(wrong.Stop)
	soon := tlsfilestest.NewAuthority(t, "root").Valid(t, 1, time.Time{}, time.Now().Add(5*24*time.Hour))
	files := tlsfilestest.Write(t, soon.Certificate, soon.Key)
	for _, test := range []struct {
		name, upstreams, more, headline string
		use                             func(*gateway)
	}{
		{"calm", usual, "", "Everything is well", func(g *gateway) { g.servers(t) }},
		{"wrong-address", strings.Replace(usual, "incident: *others", fmt.Sprintf("incident: {address: %q}", listener.Addr()), 1), "",
			"incident: wrong service at its address", func(g *gateway) { g.servers(t) }},
		{"slow-service", usual, "rate_limit: {limits: [{requests: 1000, per: 1s}]}\n", "fleet: slow", func(g *gateway) {
			g.sendSlow(t)
		}},
		{"certificate", usual, fmt.Sprintf("tls: {cert_file: %q, key_file: %q}\n", files[0], files[1]), "tls.cert_file expires in ", func(*gateway) {}},
		{"lost-redundancy", strings.Replace(usual, `"FLEET"`, `"static:///FLEET,127.0.0.1:1"`, 1), "", "fleet: ", func(g *gateway) { g.servers(t) }},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			g := startWith(t, test.upstreams, test.more)
			s := show(t, g) // before the state, which may end while the browser starts
			test.use(g)
			s.headline(test.headline)
			if test.name != "calm" {
				s.Eventually("there is advice", `/^Impact\n.+\nLater\n.+\nDo first\n.+/.test(document.getElementById("headline-advice").innerText)`)
			}
			s.KeepPicture(test.name + ".png")
		})
	}
}
