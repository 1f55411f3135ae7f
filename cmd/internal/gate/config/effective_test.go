package config_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"opsgate/cmd/internal/gate/config"
	"opsgate/internal/testkit"
)

func TestEffectiveValuesAreAConfiguration(t *testing.T) {
	want := loadText(t, limited+`  redis: {key_prefix: ""}
  teams: {20000000-0000-4000-8000-000000000001: {limits: [{requests: 1, per: 1s, shadow: true}, {requests: 7, per: 1h}], reason: "{}", owner: "null", expires: 2126-01-31T12:00:00Z}}
  classes: {partner: {limits: [{requests: 9, per: 1s}], teams: [20000000-0000-4000-8000-000000000001, 20000000-0000-4000-8000-000000000002], tokens: []}}
trusted_proxies: [10.0.0.0/8, 192.168.0.0/16]
public_url: https://api.example.com
`, "OPSGATE_ADMIN_TOKEN=correct-horse-battery", "OPSGATE_HTTP_MAX_CONNECTIONS=auto")
	got, err := config.FromEffective(append(want.Effective(), config.Value{Key: "new.in_another_version"}), want)
	testkit.Must(t, err)
	if changes := config.Changes(want, got); len(changes) > 0 || got.Version() != want.Version() {
		t.Errorf("it changes %q", changes)
	}
	if problems := config.RestartProblems(want, got); len(problems) > 0 {
		t.Error(problems)
	}
	if got.Admin.Token.Reveal() != "correct-horse-battery" {
		t.Error("the secret is not that of the file")
	}
	for _, bad := range []config.Value{{Key: `rate_limit.tokens."a`, Value: "1"}, {Key: "no.such", Value: "1"}, {Key: "log[0]", Value: "1"}, {Key: "http", Value: "1"}} {
		if _, err := config.FromEffective([]config.Value{bad}, want); err == nil {
			t.Errorf("%s is accepted", bad.Key)
		}
	}
}

// A file is compared with a running gateway as it would be in it: with the gateway's own variables,
// flags and secrets. It is valid with them.
func TestVariablesOfAGatewayOverrideAFile(t *testing.T) {
	const token, headers = "OPSGATE_ADMIN_TOKEN=correct-horse-battery", "OPSGATE_TRACING_HEADERS=a=b"
	certificate, err := filepath.Abs("testdata/certificate.pem")
	testkit.Must(t, err)
	running := loadText(t, limited, "OPSGATE_RATE_LIMIT_LIMITS=[{requests: 7, per: 1h, shadow: true}, {requests: 9, per: 1s}]", "OPSGATE_TRUSTED_PROXIES=10.1.0.0/16",
		"OPSGATE_RATE_LIMIT_TEAMS={20000000-0000-4000-8000-000000000001: {limits: [{requests: 1, per: 1s}]}}", "OPSGATE_HTTP_MAX_CONNECTIONS=auto", "OPSGATE_ADMIN_LISTEN=0.0.0.0:9090", "OPSGATE_LOG_ACCESS=true", token, headers,
		"OPSGATE_ADMIN_METRICS_TOKEN=another-horse-battery", "OPSGATE_TRACING_ENDPOINT=https://t:4318", "OPSGATE_TRACING_TLS_CA_FILE="+certificate).Effective()
	for i, v := range running {
		if v.Key == "tracing.tls.ca_file" {
			running[i].Value = "/on/another/machine"
		}
	}
	compare := func(text string) (changes []string, err error) {
		after, err := config.Load(config.Options{Path: write(t, text), Running: running, Defaults: upstreams()})
		if err != nil {
			return nil, err
		}
		before, err := config.FromEffective(running, after)
		testkit.Must(t, err)
		for _, p := range config.RestartProblems(before, after) {
			changes = append(changes, p.Error())
		}
		return append(changes, config.Changes(before, after)...), nil
	}
	changes, err := compare(strings.Replace(limited, "level: info", "level: warn, access: false", 1))
	if diff := cmp.Diff([]string{"log.level: info, now warn"}, changes); err != nil || diff != "" {
		t.Error(err, diff)
	}
	if _, err := compare(limited + "public_url: \"://\"\n"); err == nil || !strings.Contains(err.Error(), "public_url") {
		t.Errorf("a file that is not valid: %v", err)
	}
	// It is valid alone, but not with the variables of the gateway.
	_, err = compare(strings.Replace(limited, "listen: 127.0.0.1:1", "listen: 0.0.0.0:9090", 1))
	if err == nil || !strings.Contains(err.Error(), "OPSGATE_ADMIN_LISTEN: admin.listen: is the address of the public API") {
		t.Errorf("got %v", err)
	}
}

// A file whose limits are not valid still has the address of a running gateway.
func TestProblemsOfOtherKeysAreIgnored(t *testing.T) {
	file := write(t, "admin: {listen: 127.0.0.1:2}\nrate_limit: {limits: [{requests: 1, per: 0s}, {requests: 2, per: 1h}]}\n")
	loaded, err := config.Load(config.Options{Path: file, Under: "admin"})
	if err != nil || loaded.Admin.Listen != "127.0.0.1:2" {
		t.Errorf("got %q, %v", loaded.Admin.Listen, err)
	}
}
