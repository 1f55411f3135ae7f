package config_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"opsgate/backendclient/testkit"
	"opsgate/cmd/internal/gate/config"
)

func TestEffectiveValuesAreAConfiguration(t *testing.T) {
	want := loadText(t, limited+`  teams: {20000000-0000-4000-8000-000000000001: {limits: [{requests: 1, per: 1s, shadow: true}, {requests: 7, per: 1h}], reason: "{}", owner: "null", expires: 2126-01-31T12:00:00Z}}
  classes: {partner: {limits: [{requests: 9, per: 1s}], teams: [20000000-0000-4000-8000-000000000001, 20000000-0000-4000-8000-000000000002], tokens: []}}
trusted_proxies: [10.0.0.0/8, 192.168.0.0/16]
public_url: https://api.example.com
`, "OPSGATE_ADMIN_TOKEN=correct horse battery", "OPSGATE_HTTP_MAX_CONNECTIONS=auto")
	got, err := config.FromEffective(want.Effective(), want)
	testkit.Must(t, err)
	if changes := config.Changes(want, got); len(changes) > 0 || got.Version() != want.Version() {
		t.Errorf("it changes %q", changes)
	}
	if problems := config.RestartProblems(want, got); len(problems) > 0 {
		t.Error(problems)
	}
	if got.Admin.Token.Reveal() != "correct horse battery" {
		t.Error("the secret is not that of the file")
	}
	for _, bad := range []config.Value{{Key: `rate_limit.tokens."a`, Value: "1"}, {Key: "no.such", Value: "1"}, {Key: "log[0]", Value: "1"}, {Key: "http", Value: "1"}} {
		if _, err := config.FromEffective([]config.Value{bad}, want); err == nil {
			t.Errorf("%s is accepted", bad.Key)
		}
	}
}

// A file is compared with a running gateway as it would be in it: with the gateway's own variables and flags.
func TestVariablesOfAGatewayOverrideAFile(t *testing.T) {
	running := loadText(t, limited, "OPSGATE_RATE_LIMIT_LIMITS=[{requests: 7, per: 1h}, {requests: 9, per: 1s}]", "OPSGATE_TRUSTED_PROXIES=10.1.0.0/16",
		"OPSGATE_HTTP_MAX_CONNECTIONS=auto", "OPSGATE_ADMIN_TOKEN=correct horse battery").Effective()
	file := loadText(t, strings.Replace(limited, "level: info", "level: warn", 1))
	after, err := file.WithOverrides(running)
	testkit.Must(t, err)
	before, err := config.FromEffective(running, after)
	testkit.Must(t, err)
	if diff := cmp.Diff([]string{`admin.token: (hidden), now ""`, "log.level: info, now warn"}, config.Changes(before, after)); diff != "" {
		t.Error(diff)
	}
}

// A file whose limits are not valid still has the address of a running gateway.
func TestProblemsOfOtherKeysAreIgnored(t *testing.T) {
	file := filepath.Join(t.TempDir(), "opsgate.yaml")
	testkit.Must(t, os.WriteFile(file, []byte("admin: {listen: 127.0.0.1:2}\nrate_limit: {limits: [{requests: 1, per: 0s}, {requests: 2, per: 1h}]}\n"), 0o600))
	loaded, err := config.Load(config.Options{Path: file, Under: "admin"})
	if err != nil || loaded.Admin.Listen != "127.0.0.1:2" {
		t.Errorf("got %q, %v", loaded.Admin.Listen, err)
	}
}
