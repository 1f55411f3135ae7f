package backendclient_test

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/net/dns/dnsmessage"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"opsgate/backendclient"
	"opsgate/backendclient/endpoints"
	"opsgate/internal/certs/certstest"
	"opsgate/internal/testkit"
	"opsgate/internal/testkit/dnstest"
	fleetv1 "opsgate/proto/ops/fleet/v1"
)

// samePort starts places at one port of 127.0.0.1, 127.0.0.2, ….
func samePort(t *testing.T, hosts ...string) (port string, places []*place) {
	t.Helper()
	port = "0"
	for _, host := range hosts {
		p := startPlaceAt(t, net.JoinHostPort(host, port))
		_, port, _ = net.SplitHostPort(p.Address)
		places = append(places, p)
	}
	return port, places
}

// fleetAt returns upstreams of which fleet is at the address.
func fleetAt(address string) backendclient.Upstreams {
	u := at("passthrough:///x")
	u.Fleet.Address = address
	return u
}

// states returns the states of the fleet service's endpoints by address.
func states(clients *backendclient.Clients) map[string]endpoints.State {
	all := make(map[string]endpoints.State)
	for _, e := range clients.Services()["fleet"].Endpoints {
		all[e.Address] = e.State
	}
	return all
}

// awaitStates waits until the endpoints of fleet have the states.
func awaitStates(t *testing.T, clients *backendclient.Clients, want map[string]endpoints.State) {
	t.Helper()
	testkit.Eventually(t, fmt.Sprintf("the states are %v", want), func() bool { return maps.Equal(states(clients), want) })
}

func TestANameThatGainsAddressesIsUsedAtAllOfThem(t *testing.T) {
	port, places := samePort(t, "127.0.0.1", "127.0.0.2", "127.0.0.3")
	names := dnstest.Start(t, dnstest.Addresses("127.0.0.1"))
	clients := dial(t, fleetAt("dns://"+names.Address+"/fleet.example:"+port), backendclient.Quicken)
	<-places[0].begun
	names.Set(dnstest.Addresses("127.0.0.1", "127.0.0.2", "127.0.0.3"))
	<-places[1].begun
	<-places[2].begun
	names.Set(dnstest.Addresses("127.0.0.3"))
	<-places[0].ended
	<-places[1].ended
	if err := getServer(t, clients); err != nil || places[2].calls.Load() != 1 {
		t.Errorf("%v, %d calls at the address that is left", err, places[2].calls.Load())
	}
}

func TestFailedLookupsKeepTheAddresses(t *testing.T) {
	port, places := samePort(t, "127.0.0.1")
	const metric = "opsgate_upstream_dns_failures_total"
	for name, failure := range map[string]dnstest.Answer{
		"no address":     dnstest.Addresses(),
		"no such name":   dnstest.Failure(dnsmessage.RCodeNameError),
		"server failure": dnstest.Failure(dnsmessage.RCodeServerFailure),
	} {
		t.Run(name, func(t *testing.T) {
			names, registry, log := dnstest.Start(t, dnstest.Addresses("127.0.0.1")), prometheus.NewRegistry(), make(lines, 100)
			o := backendclient.Options{
				Upstreams: fleetAt("dns://" + names.Address + "/fleet.example:" + port), Registerer: registry, Logger: slog.New(log),
			}
			backendclient.Quicken(&o)
			clients, err := backendclient.Dial(o)
			testkit.Must(t, err)
			<-places[0].begun
			names.Set(failure)
			before := names.Lookups.Load()
			eventually(t, clients, func() bool { return names.Lookups.Load() > before+5 })
			if err := getServer(t, clients); err != nil {
				t.Error(err)
			}
			if len(places[0].begun)+len(places[0].ended) > 0 {
				t.Error("the connection was closed")
			}
			if f := clients.Services()["fleet"].FailedLookup; f == nil || f.Since.IsZero() || !strings.Contains(f.Cause, "fleet.example") {
				t.Fatalf("fails: %+v", f)
			}
			if n := series(t, registry, metric)["service=fleet"]; n < 2 {
				t.Errorf("%v failures are counted", n)
			}
			names.Set(dnstest.Addresses("127.0.0.1"))
			eventually(t, clients, func() bool { return clients.Services()["fleet"].FailedLookup == nil })
			const fails = "the name of an internal service does not resolve service=fleet error=lookup fleet.example"
			for _, want := range []string{fails, "the name of an internal service resolves again service=fleet"} {
				line := <-log
				for !strings.HasPrefix(line, "the name") {
					line = <-log
				}
				if !strings.HasPrefix(line, want) {
					t.Errorf("logged %q, want %q", line, want)
				}
			}
			if err := clients.Close(); err != nil {
				t.Error(err)
			}
			<-places[0].ended
		})
	}
}

// The interval is long, but a connection breaks.
func TestABrokenConnectionLooksTheNameUpAtOnce(t *testing.T) {
	port, places := samePort(t, "127.0.0.1", "127.0.0.2")
	names := dnstest.Start(t, dnstest.Addresses("127.0.0.1"))
	listener := &cutting{Listener: listen(t, "127.0.0.3:"+port)}
	failing(t, status.New(codes.NotFound, "none")).serve(t, listener)
	names.Set(dnstest.Addresses("127.0.0.3"))
	clients := dial(t, fleetAt("dns://"+names.Address+"/fleet.example:"+port), func(o *backendclient.Options) {
		backendclient.Quicken(o)
		backendclient.LookupEvery(o, time.Hour)
	})
	_ = getServer(t, clients)
	names.Set(dnstest.Addresses("127.0.0.1", "127.0.0.2"))
	listener.cut()
	<-places[0].begun
	<-places[1].begun
}

// The proxies of the environment are dead (TestMain). gRPC itself would use them for every address
// below but the socket, and look up no name.
func TestConnectionsUseNoProxy(t *testing.T) {
	names, socket := dnstest.Start(t, dnstest.Addresses("127.0.0.1")), t.TempDir()+"/fleet.sock"
	b := &backend{getServer: func(context.Context) (*fleetv1.GetServerResponse, error) { return &fleetv1.GetServerResponse{}, nil }}
	tcp := listen(t, "127.0.0.1:0")
	b.serve(t, tcp)
	unix, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", socket)
	testkit.Must(t, err)
	b.serve(t, unix)
	_, port, _ := net.SplitHostPort(tcp.Addr().String())
	address := net.JoinHostPort(testkit.ThisHost, port)
	if proxy, err := http.ProxyFromEnvironment(&http.Request{URL: &url.URL{Scheme: "https", Host: address}}); proxy == nil || err != nil {
		t.Fatalf("the environment has no proxy for %s: %v", address, err)
	}
	for _, target := range []string{
		"dns://" + names.Address + "/fleet.example:" + port, "dns:///" + address, "static:///" + address + "," + address,
		"passthrough:///" + address, address, "unix://" + socket,
	} {
		if err := getServer(t, dial(t, fleetAt(target))); err != nil {
			t.Errorf("%s: %v", target, err)
		}
	}
}

// The name in the certificate is the host of each address, unless a name is configured.
func TestTheServerNameOfAStaticListIsThatOfEachAddress(t *testing.T) {
	authority := certstest.NewAuthority(t, "known")
	service := secured(t, authority) // its certificate is for fleet.example and 127.0.0.1
	_, port, _ := net.SplitHostPort(service.listener.Addr().String())
	const ready, unavailable = endpoints.Ready, endpoints.Unavailable
	for _, test := range []struct {
		serverName    string
		ip, localhost endpoints.State
	}{
		{"", ready, unavailable},
		{"fleet.example", ready, ready},
		{"audit.example", unavailable, unavailable},
	} {
		t.Run("server name "+test.serverName, func(t *testing.T) {
			files := write(t, t.TempDir(), authority, "gateway")
			files.ServerName = test.serverName
			upstreams := fleetAt("static:///127.0.0.1:" + port + ",localhost:" + port)
			upstreams.Fleet.TLS = files
			clients := dial(t, upstreams)
			want := map[string]endpoints.State{"127.0.0.1:" + port: test.ip, "localhost:" + port: test.localhost}
			awaitStates(t, clients, want)
		})
	}
}

// A name server that does not answer must not delay the end of a gateway.
func TestClosingDoesNotWaitForTheNameServer(t *testing.T) {
	silent := dnstest.Start(t, nil)
	name := backendclient.Target{Address: "dns://" + silent.Address + "/fleet.example:9000"}
	clients, err := backendclient.Dial(backendclient.Options{Upstreams: backendclient.Upstreams{
		Fleet: name, Monitoring: name, Incident: name, Audit: name, Identity: name,
	}})
	testkit.Must(t, err)
	testkit.Eventually(t, "a lookup is in progress", func() bool { return silent.Lookups.Load() > 0 })
	start := time.Now()
	if err := clients.Close(); err != nil {
		t.Error(err)
	}
	if took := time.Since(start); took > 2*time.Second {
		t.Errorf("it took %v", took)
	}
}
