package chaos

import (
	"fmt"
	"path/filepath"
	"testing"

	"opsgate/cmd/internal/test/testkit"
)

// services are the addresses of the internal services, as gRPC targets.
type services struct{ fleet, monitoring, incident, audit, identity string }

// everyService returns services that are all at one address.
func everyService(address string) services {
	return services{fleet: address, monitoring: address, incident: address, audit: address, identity: address}
}

// configuration returns the configuration of a gateway in front of the services.
func (s services) configuration() string {
	return fmt.Sprintf("listen: 127.0.0.1:0\nadmin: {listen: 127.0.0.1:0}\nupstreams:\n  fleet: {address: %q}\n  monitoring: {address: %q}\n"+
		"  incident: {address: %q}\n  audit: {address: %q}\n  identity: {address: %q}\n", s.fleet, s.monitoring, s.incident, s.audit, s.identity)
}

// backend is a running opsbackend with the demo data.
type backend struct {
	*testkit.Process

	address string
	admin   string // base URL
	data    string // folder, which several backends can share
}

// launchBackend runs a backend at an address; port 0 selects a free port.
func launchBackend(address, data string) (*backend, error) {
	p, err := launch("opsbackend", "serve", "--listen="+address, "--data-dir="+data, "--seed=demo", "--admin-listen=127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	serving, err := p.Record("serving")
	if err != nil {
		return nil, err
	}
	return &backend{
		Process: p, address: fmt.Sprint(serving["address"]), admin: fmt.Sprint("http://", serving["admin"]), data: data,
	}, nil
}

// startBackend runs a backend for one test, with its own data.
func startBackend(t *testing.T) *backend {
	t.Helper()
	return startBackendAt(t, "127.0.0.1:0", filepath.Join(t.TempDir(), "data"))
}

func startBackendAt(t *testing.T, address, data string) *backend {
	t.Helper()
	b, err := launchBackend(address, data)
	must(t, err)
	t.Cleanup(func() {
		b.End(t)
		if t.Failed() {
			t.Logf("log of the backend:\n%s", b.Log.String())
		}
	})
	return b
}

// restart starts a stopped backend again, with its address and data.
func (b *backend) restart(t *testing.T) {
	t.Helper()
	again, err := launchBackend(b.address, b.data)
	must(t, err)
	b.Process, b.admin = again.Process, again.admin
}

// startReplicas runs backends with shared data, at different loopback addresses and the same port. It returns them and their common
// DNS target.
func startReplicas(t *testing.T, n int) (replicas []*backend, name string) {
	t.Helper()
	data := filepath.Join(t.TempDir(), "data")
	first := startBackendAt(t, "127.0.0.1:0", data)
	replicas = []*backend{first}
	hosts := []string{host(t, first.address)}
	for i := 2; i <= n; i++ {
		other := startBackendAt(t, fmt.Sprintf("127.0.0.%d:%s", i, port(t, first.address)), data)
		replicas, hosts = append(replicas, other), append(hosts, host(t, other.address))
	}
	return replicas, "dns://" + startResolver(t, hosts...).address + "/backend.test:" + port(t, first.address)
}
