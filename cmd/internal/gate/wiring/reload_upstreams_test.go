package wiring_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"opsgate/backendclient/testkit"
	"opsgate/cmd/internal/test/servicestest"
)

// The address of all services changes to services that answer. Requests in flight end at the old address. An address that does not answer is
// refused.
func TestReloadChangesTheAddressesOfServices(t *testing.T) {
	before, after := servicestest.Start(t), servicestest.Start(t)
	before.Release, after.Token = make(chan struct{}), before.Token
	r := reloadingGateway(t, before, limits(1_000_000))
	inFlight := make(chan response)
	go func() {
		got, _ := r.try(r.Address(), "/v1/servers")
		inFlight <- got
	}()
	<-before.Arrived

	base := r.base
	at := func(address string) string { return strings.ReplaceAll(base, before.Address, address) }
	r.base = at(after.Address)
	testkit.Must(t, r.reload(t, limits(1_000_000)))
	r.mustGet(t, "/v1/servers", http.StatusOK) // at the new address
	line := r.await(t, "configuration reloaded")
	if want := fmt.Sprintf("upstreams.fleet.address: %s, now %s", before.Address, after.Address); !strings.Contains(fmt.Sprint(line["changed"]), want) {
		t.Errorf("logged %v, want %q", line["changed"], want)
	}
	close(before.Release)
	if got := <-inFlight; got.status != http.StatusOK {
		t.Errorf("the request in flight: %+v", got)
	}

	r.base = at("127.0.0.1:1")
	refused := regexp.MustCompile(`opsgate.yaml:[0-9]+: upstreams\.[a-z]+\.address: 127.0.0.1:1 does not respond, and `)
	if err := r.reload(t, limits(1_000_000)); err == nil || !refused.MatchString(err.Error()) {
		t.Errorf("got %v", err)
	}
	r.mustGet(t, "/v1/servers", http.StatusOK) // after a refused address
	r.base = base
	testkit.Must(t, r.reload(t, limits(1_000_000)))
	r.mustGet(t, "/v1/servers", http.StatusOK) // back at the first address
}

// Files that cannot be read refuse the whole configuration.
func TestReloadRefusesUnreadableTLSFilesOfServices(t *testing.T) {
	services := servicestest.Start(t)
	r := reloadingGateway(t, services, limits(100))
	good, path := r.base, filepath.Join(t.TempDir(), "ca.pem")
	testkit.Must(t, os.WriteFile(path, []byte("no certificate"), 0o600))
	r.base = strings.Replace(good, fmt.Sprintf("address: %q", services.Address),
		fmt.Sprintf("address: %q, tls: {enabled: true, ca_file: %q}", services.Address, path), 1)
	if err := r.reload(t, limits(200)); err == nil || !strings.Contains(err.Error(), "upstreams.fleet.tls.ca_file: names a file without a certificate") {
		t.Errorf("got %v", err)
	}
	r.mustAdmit(t, 100)
	r.base = good
	testkit.Must(t, r.reload(t, limits(200)))
	r.mustAdmit(t, 200)
}
