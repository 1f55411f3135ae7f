package wiring_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"opsgate/cmd/internal/test/servicestest"
	"opsgate/internal/testkit"
)

// Files that cannot be read refuse the whole configuration.
func TestReloadRefusesUnreadableTLSFilesOfServices(t *testing.T) {
	services := servicestest.Start(t)
	r := startWith(t, services, limits(100))
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
