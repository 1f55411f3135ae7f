package wiring_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"opsgate/cmd/internal/test/servicestest"
	"opsgate/internal/testkit"
)

func TestReloadOfALimitKeepsUsage(t *testing.T) {
	r := start(t, limits(3))
	r.mustAdmit(t, 3)
	for _, step := range []struct{ requests, remaining int }{{10, 8}, {4, 1}, {3, 0}} {
		testkit.Must(t, r.reload(t, limits(step.requests)))
		got := r.get(t, r.Address(), "/v1/servers")
		if !strings.HasPrefix(got.header.Get("RateLimit"), fmt.Sprintf(`"minute";r=%d;`, step.remaining)) || requests(got) != step.requests {
			t.Errorf("%+v: got %+v", step, got)
		}
	}
	line := r.lines("configuration reloaded")[0]
	version := fmt.Sprint(line["config_version"])
	serving := r.await(t, "serving")
	if line["config_version_before"] != serving["config_version"] || serving["version"] != "1.2.3" || fmt.Sprint(line["changed"]) != "[rate_limit.limits[0].requests: 3, now 10]" {
		t.Errorf("got %v", line)
	}
	if r.metric(t, `opsgate_config_info{version="`+version+`"}`) != "" {
		t.Error("the old version is in the metrics")
	}
	r.mustHaveMetric(t, `opsgate_config_reloads_total{outcome="applied"}`, "3")
}

func TestRequestEndsUnderTheConfigurationThatItStartedWith(t *testing.T) {
	r := startHolding(t, limits(100))
	held := r.hold()
	testkit.Must(t, r.reload(t, limits(200)+"routes: {v1ListServers: {timeout: 50ms}}\n"))
	if got := r.get(t, r.Address(), "/v1/servers"); got.status != 504 || requests(got) != 200 {
		t.Errorf("a later request: got %+v", got)
	}
	close(r.services.Release)
	if got := <-held; got.status != 200 || requests(got) != 100 {
		t.Errorf("got %+v", got)
	}
}

func TestReloadThatChangesAKeyFixedAtStartIsRefusedAsAWhole(t *testing.T) {
	r := start(t, limits(100))
	for _, test := range []struct{ key, text, reason string }{
		{"token_prefix", "token_prefix: acme_\n", "tokens in use would fail"},
		{"http.idle_timeout", "http: {idle_timeout: 1m}\n", "set at start"},
	} {
		err := r.reload(t, limits(200)+test.text)
		want := fmt.Sprintf("%s:10: %s: a change needs a restart (%s)", r.file, test.key, test.reason)
		if err == nil || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
		r.mustAdmit(t, 100)
	}
}

// Kubernetes mounts opsgate.yaml as a link to ..data/opsgate.yaml, and ..data as a link to a
// directory. An update replaces the link ..data.
func TestReplacedSymbolicLinkIsReloaded(t *testing.T) {
	r := start(t, "")
	dir := filepath.Dir(r.file)
	mount := func(directory, text string) {
		t.Helper()
		testkit.Must(t, os.Mkdir(filepath.Join(dir, directory), 0o700))
		testkit.Must(t, os.WriteFile(filepath.Join(dir, directory, "opsgate.yaml"), []byte(r.base+text), 0o600))
		link(t, directory, filepath.Join(dir, "..data"))
	}
	mount("first", limits(100))
	link(t, "..data/opsgate.yaml", r.file)
	testkit.Eventually(t, "the file is a link", func() bool {
		return requests(r.get(t, r.Address(), "/v1/servers")) == 100
	})
	mount("second", limits(200))
	testkit.Eventually(t, "the directory was replaced", func() bool {
		return requests(r.get(t, r.Address(), "/v1/servers")) == 200
	})
}

// link creates or replaces a symbolic link in one step.
func link(t *testing.T, to, path string) {
	t.Helper()
	testkit.Must(t, os.Symlink(to, path+".next"))
	testkit.Must(t, os.Rename(path+".next", path))
}

func TestRetriesOfARefusedConfigurationAreLoggedOnce(t *testing.T) {
	r := start(t, limits(100))
	testkit.Must(t, os.Remove(r.file))
	testkit.Eventually(t, "the missing file is reported", func() bool { return len(r.lines("configuration refused")) == 1 })
	for range 2 {
		before := r.loads.Load()
		r.ahead.Add(int64(10 * time.Second))
		testkit.Eventually(t, "a retry", func() bool { return r.loads.Load() > before })
	}
	if refused := r.lines("configuration refused"); len(refused) != 1 || !strings.Contains(fmt.Sprint(refused[0]["problem"]), "no such file") {
		t.Errorf("got %v", refused)
	}
	r.mustHaveMetric(t, `opsgate_config_reloads_total{outcome="refused"}`, "1")
	r.mustAdmit(t, 100)
	r.write(t, limits(100))
	testkit.Eventually(t, "the file is back", func() bool { return r.metric(t, "opsgate_config_last_reload_successful") == "1" })
}

func TestLimitsExpire(t *testing.T) {
	expires := time.Now().Add(time.Hour).UTC().Format(time.RFC3339)
	r := start(t, fmt.Sprintf("rate_limit:\n  limits: [{requests: 100, per: 1m}]\n  tokens:\n    %s:\n"+
		"      {limits: [{requests: 500, per: 1m}], owner: sre@example.com, reason: migration, expires: %s}\n", servicestest.TokenID, expires))
	r.mustAdmit(t, 500)
	version := r.await(t, "serving")["config_version"]
	if err := r.reload(t, "listn: 1\n"); err == nil {
		t.Error("an invalid configuration: no error")
	}
	r.ahead.Store(int64(2 * time.Hour))
	testkit.Eventually(t, "the limits have expired", func() bool {
		return requests(r.get(t, r.Address(), "/v1/servers")) == 100
	})
	line := r.await(t, "limits expired")
	if line["key"] != "rate_limit.tokens."+servicestest.TokenID || line["origin"] != r.file+":12" || line["owner"] != "sre@example.com" ||
		line["reason"] != "migration" {
		t.Errorf("got %v", line)
	}
	r.mustHaveMetric(t, fmt.Sprintf("opsgate_config_info{version=%q}", version), "1") // the expiry does not change the version
	r.mustHaveMetric(t, "opsgate_config_last_reload_successful", "0")                 // the file is still invalid
}

func TestReloadChangesTheLogLevel(t *testing.T) {
	r := start(t, limits(100))
	for _, step := range []struct {
		text string
		want bool
	}{
		{"", true}, {"log: {level: error}\n", false}, {"log: {level: debug}\n", true}, {"log: {access: false}\n", false},
	} {
		testkit.Must(t, r.reload(t, limits(100)+step.text))
		before := len(r.lines("request"))
		r.mustAdmit(t, 100)
		if step.want {
			testkit.Eventually(t, "a line for the request", func() bool { return len(r.lines("request")) > before })
			continue
		}
		r.mustAdmit(t, 100) // on the same connection, so the first request has been logged
		if len(r.lines("request")) > before {
			t.Errorf("%q: a request is logged", step.text)
		}
	}
}

func TestReloadChangesPublicPages(t *testing.T) {
	r := start(t, limits(100))
	if page := r.get(t, r.Address(), "/openapi.yaml").body; !strings.Contains(page, "\n  - url: /\n") {
		t.Error("the page does not have a relative URL")
	}
	testkit.Must(t, r.reload(t, limits(100)+"public_url: https://api.acme.example\nsecurity_contact: tel:+1-555-0100\n"))
	if page := r.get(t, r.Address(), "/openapi.yaml").body; !strings.Contains(page, "https://api.acme.example") {
		t.Error("the page does not have the public URL")
	}
	if text := r.get(t, r.Address(), "/.well-known/security.txt").body; !strings.Contains(text, "Contact: tel:+1-555-0100\n") {
		t.Errorf("security.txt is %s", text)
	}
}
