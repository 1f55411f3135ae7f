package backendclient_test

import (
	"context"
	"log/slog"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/net/dns/dnsmessage"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"opsgate/backendclient"
	"opsgate/backendclient/testkit"
	"opsgate/backendclient/tlsfiles/tlsfilestest"
	fleetv1 "opsgate/proto/ops/fleet/v1"
)

// A nameServer is a DNS server that returns the same addresses for each name.
type nameServer struct {
	address   string
	addresses atomic.Pointer[[]string] // an empty list is an answer without addresses
	code      atomic.Uint32            // dnsmessage.RCode
	lookups   atomic.Int64
}

func startNameServer(t *testing.T, addresses ...string) *nameServer {
	t.Helper()
	conn, err := (&net.ListenConfig{}).ListenPacket(t.Context(), "udp", "127.0.0.1:0")
	testkit.Must(t, err)
	s := &nameServer{address: conn.LocalAddr().String()}
	s.addresses.Store(&addresses)
	var running sync.WaitGroup
	running.Go(func() {
		for buffer := make([]byte, 512); ; {
			n, peer, err := conn.ReadFrom(buffer)
			if err != nil {
				return
			}
			if response, err := s.answer(buffer[:n]); err == nil {
				_, _ = conn.WriteTo(response, peer)
			}
		}
	})
	t.Cleanup(func() {
		_ = conn.Close()
		running.Wait()
	})
	return s
}

func (s *nameServer) answer(message []byte) ([]byte, error) {
	var m dnsmessage.Message
	if err := m.Unpack(message); err != nil {
		return nil, err
	}
	m.Response, m.RecursionAvailable, m.RCode, m.Additionals = true, true, dnsmessage.RCode(s.code.Load()), nil
	if q := m.Questions[0]; q.Type == dnsmessage.TypeA {
		for _, address := range *s.addresses.Load() {
			m.Answers = append(m.Answers, dnsmessage.Resource{
				Header: dnsmessage.ResourceHeader{Name: q.Name, Type: q.Type, Class: q.Class, TTL: 1},
				Body:   &dnsmessage.AResource{A: netip.MustParseAddr(address).As4()},
			})
		}
		s.lookups.Add(1)
	}
	return m.Pack()
}

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
func states(clients *backendclient.Clients) map[string]backendclient.EndpointState {
	all := make(map[string]backendclient.EndpointState)
	for _, e := range clients.Endpoints()["fleet"] {
		all[e.Address] = e.State
	}
	return all
}

// awaitStates waits until the endpoints of fleet have the states.
func awaitStates(t *testing.T, clients *backendclient.Clients, want map[string]backendclient.EndpointState) {
	t.Helper()
	tick, end := time.NewTicker(time.Millisecond), time.After(time.Minute)
	defer tick.Stop()
	for !maps.Equal(states(clients), want) {
		select {
		case <-tick.C:
		case <-end:
			t.Fatalf("states %v, want %v", states(clients), want)
		}
	}
}

func TestANameThatGainsAddressesIsUsedAtAllOfThem(t *testing.T) {
	port, places := samePort(t, "127.0.0.1", "127.0.0.2", "127.0.0.3")
	names := startNameServer(t, "127.0.0.1")
	clients := dial(t, fleetAt("dns://"+names.address+"/fleet.example:"+port), backendclient.Quicken)
	<-places[0].begun
	names.addresses.Store(&[]string{"127.0.0.1", "127.0.0.2", "127.0.0.3"})
	<-places[1].begun
	<-places[2].begun
	names.addresses.Store(&[]string{"127.0.0.3"})
	<-places[0].ended
	<-places[1].ended
	if err := getServer(t, clients); err != nil || places[2].calls.Load() != 1 {
		t.Errorf("%v, %d calls at the address that is left", err, places[2].calls.Load())
	}
}

func TestFailedLookupsKeepTheAddresses(t *testing.T) {
	port, places := samePort(t, "127.0.0.1")
	const metric = "opsgate_upstream_dns_failures_total"
	for name, fail := range map[string]func(*nameServer){
		"no address":     func(s *nameServer) { s.addresses.Store(new([]string)) },
		"no such name":   func(s *nameServer) { s.code.Store(uint32(dnsmessage.RCodeNameError)) },
		"server failure": func(s *nameServer) { s.code.Store(uint32(dnsmessage.RCodeServerFailure)) },
	} {
		t.Run(name, func(t *testing.T) {
			names, registry, log := startNameServer(t, "127.0.0.1"), prometheus.NewRegistry(), make(lines, 100)
			o := backendclient.Options{
				Upstreams: fleetAt("dns://" + names.address + "/fleet.example:" + port), Registerer: registry, Logger: slog.New(log),
			}
			backendclient.Quicken(&o)
			clients, err := backendclient.Dial(o)
			testkit.Must(t, err)
			<-places[0].begun
			if n := series(t, registry, metric)[metric+" service=fleet"]; n != 0 || len(clients.FailedLookups()) > 0 {
				t.Errorf("%v failures, %v", n, clients.FailedLookups())
			}
			fail(names)
			before := names.lookups.Load()
			eventually(t, clients, func() bool { return names.lookups.Load() > before+5 })
			if err := getServer(t, clients); err != nil {
				t.Error(err)
			}
			if len(places[0].begun)+len(places[0].ended) > 0 {
				t.Error("the connection was closed")
			}
			f, failing := clients.FailedLookups()["fleet"]
			if !failing || f.Since.IsZero() || !strings.Contains(f.Cause, "fleet.example") {
				t.Fatalf("fails: %v, %+v", failing, f)
			}
			if n := series(t, registry, metric)[metric+" service=fleet"]; n < 2 {
				t.Errorf("%v failures are counted", n)
			}
			names.code.Store(uint32(dnsmessage.RCodeSuccess))
			names.addresses.Store(&[]string{"127.0.0.1"})
			eventually(t, clients, func() bool { return len(clients.FailedLookups()) == 0 })
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
	names := startNameServer(t, "127.0.0.1")
	listener := &cutting{Listener: listen(t, "127.0.0.3:"+port)}
	failing(t, status.New(codes.NotFound, "none")).serve(t, listener)
	names.addresses.Store(&[]string{"127.0.0.3"})
	clients := dial(t, fleetAt("dns://"+names.address+"/fleet.example:"+port), func(o *backendclient.Options) {
		backendclient.Quicken(o)
		backendclient.LookupEvery(o, time.Hour)
	})
	_ = getServer(t, clients)
	names.addresses.Store(&[]string{"127.0.0.1", "127.0.0.2"})
	listener.cut()
	<-places[0].begun
	<-places[1].begun
}

func TestAUnixSocketIsCalledAsLocalhost(t *testing.T) {
	path := t.TempDir() + "/fleet.sock"
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", path)
	testkit.Must(t, err)
	authorities := make(chan []string, 1)
	(&backend{getServer: func(ctx context.Context) (*fleetv1.GetServerResponse, error) {
		md, _ := metadata.FromIncomingContext(ctx)
		authorities <- md.Get(":authority")
		return &fleetv1.GetServerResponse{}, nil
	}}).serve(t, listener)
	testkit.Must(t, getServer(t, dial(t, fleetAt("unix://"+path))))
	if got := <-authorities; !slices.Equal(got, []string{"localhost"}) {
		t.Errorf("authority %q", got)
	}
}

// The name in the certificate is the host of each address, unless a name is configured.
func TestTheServerNameOfAStaticListIsThatOfEachAddress(t *testing.T) {
	authority := tlsfilestest.NewAuthority(t, "known")
	service := secured(t, authority) // its certificate is for fleet.example and 127.0.0.1
	_, port, _ := net.SplitHostPort(service.listener.Addr().String())
	const ready, unavailable = backendclient.EndpointReady, backendclient.EndpointUnavailable
	for _, test := range []struct {
		serverName    string
		ip, localhost backendclient.EndpointState
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
			want := map[string]backendclient.EndpointState{"127.0.0.1:" + port: test.ip, "localhost:" + port: test.localhost}
			awaitStates(t, clients, want)
		})
	}
}

// A name server that does not answer must not delay the end of a gateway.
func TestClosingDoesNotWaitForTheNameServer(t *testing.T) {
	silent, err := (&net.ListenConfig{}).ListenPacket(t.Context(), "udp", "127.0.0.1:0")
	testkit.Must(t, err)
	t.Cleanup(func() { _ = silent.Close() })
	name := backendclient.Target{Address: "dns://" + silent.LocalAddr().String() + "/fleet.example:9000"}
	clients, err := backendclient.Dial(backendclient.Options{Upstreams: backendclient.Upstreams{
		Fleet: name, Monitoring: name, Incident: name, Audit: name, Identity: name,
	}})
	testkit.Must(t, err)
	if _, _, err := silent.ReadFrom(make([]byte, 512)); err != nil { // a lookup is in progress
		t.Fatal(err)
	}
	start := time.Now()
	if err := clients.Close(); err != nil {
		t.Error(err)
	}
	if took := time.Since(start); took > 2*time.Second {
		t.Errorf("it took %v", took)
	}
}
