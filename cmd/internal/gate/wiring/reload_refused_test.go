package wiring_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"opsgate/cmd/internal/gate/admin"
	"opsgate/cmd/internal/test/servicestest"
	"opsgate/internal/testkit"
)

// Each change of the files is logged, also one that leaves the same problem. The metric and the
// page name the keys until a reload succeeds.
func TestRefusedReloadIsLoggedAtEachChange(t *testing.T) {
	r := start(t, limits(100))
	const problems = "http: {max_body_bytes: 1}\nrate_limit: {tokens: {00000000-0000-4000-8000-000000000001: {limits: [{requests: -1, per: 1m}]}}, typo: 1}\nlogs: {}\n"
	for i := range 3 {
		r.write(t, problems+fmt.Sprintf("# edit %d\n", i))
		testkit.Eventually(t, "the change is logged", func() bool { return len(r.lines("configuration refused")) == 4*(i+1) })
	}
	testkit.Eventually(t, "3 refusals are counted", func() bool { // just after the last log line
		return r.metric(t, `opsgate_config_reloads_total{outcome="refused"}`) == "3"
	})
	refused := func() (keys []string) {
		for line := range strings.Lines(r.get(t, r.AdminAddress(), "/metrics").body) {
			if key, ok := strings.CutPrefix(line, `opsgate_config_refused{key="`); ok {
				keys = append(keys, strings.TrimSpace(key))
			}
		}
		return keys
	}
	want := fmt.Sprint([]string{`http.max_body_bytes"} 1`, `rate_limit"} 1`, `rate_limit.tokens"} 1`, `unknown"} 1`})
	if got := fmt.Sprint(refused()); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	const keys = "[http.max_body_bytes rate_limit.typo rate_limit.tokens.00000000-0000-4000-8000-000000000001.limits[0].requests logs]"
	if got := getJSON[admin.Configuration](t, r, "/admin/config"); fmt.Sprint(got.LastReload.Keys) != keys || len(got.LastReload.Problems) != 4 ||
		got.File != r.file || len(got.Version) != 12 || got.Since.IsZero() {
		t.Errorf("got %+v", got)
	}
	r.write(t, limits(100)+"token_prefix: acme_\n")
	testkit.Eventually(t, "only the new key is named", func() bool { return fmt.Sprint(refused()) == `[token_prefix"} 1]` })
	r.write(t, limits(200))
	testkit.Eventually(t, "a valid change is in force", func() bool { return len(refused()) == 0 })
	r.mustAdmit(t, 200)
	if got := getJSON[admin.Configuration](t, r, "/admin/config").LastReload; len(got.Keys) > 0 || got.Outcome != "applied" {
		t.Errorf("got %+v", got)
	}
}

func TestReloadRefusesUnreadableTLSFilesOfServices(t *testing.T) {
	services := servicestest.Start(t)
	r := startWith(t, services, limits(100))
	good, path := r.base, filepath.Join(t.TempDir(), "ca.pem")
	testkit.Must(t, os.WriteFile(path, []byte("no certificate"), 0o600))
	r.base = strings.Replace(good, fmt.Sprintf("address: %q", services.Address),
		fmt.Sprintf("address: %q, tls: {enabled: true, ca_file: %q}", services.Address, path), 1)
	err := r.reload(t, limits(200))
	if err == nil || !strings.Contains(err.Error(), "upstreams.fleet.tls.ca_file: names a file without a certificate") {
		t.Errorf("got %v", err)
	}
	r.mustAdmit(t, 100)
	r.base = good
	testkit.Must(t, r.reload(t, limits(200)))
	r.mustAdmit(t, 200)
}
