package config_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"opsgate/cmd/internal/gate/config"
	"opsgate/internal/testkit"
)

// loadText loads the text as opsgate.yaml in a new working directory.
func loadText(t *testing.T, text string, environment ...string) config.Loaded {
	t.Helper()
	t.Chdir(t.TempDir())
	testkit.Must(t, os.WriteFile("opsgate.yaml", []byte(text), 0o600))
	got, err := config.Load(config.Options{
		Path: "opsgate.yaml", Defaults: upstreams(), Environment: environment, Now: func() time.Time { return now },
	})
	testkit.Must(t, err)
	return got
}

const limited = `listen: 127.0.0.1:1
http:
  idle_timeout: 1m
log: {level: info}
rate_limit:
  limits:
    - {requests: 3, per: 1s}
    - requests: 100
      per: 1m
  tokens:
    00000000-0000-4000-8000-000000000009:
      limits: [{requests: 1, per: 1s}]
      owner: ops
`

func TestEveryValueHasAnOrigin(t *testing.T) {
	got := loadText(t, limited, "OPSGATE_LOG_LEVEL=debug", "OPSGATE_RATE_LIMIT_TEAMS={20000000-0000-4000-8000-000000000001: {limits: [{requests: 1, per: 1s}]}}")
	for key, want := range map[string]string{
		"listen":                        "opsgate.yaml:1",
		"http":                          "opsgate.yaml:2",
		"http.idle_timeout":             "opsgate.yaml:3",
		"http.body_timeout":             "default",
		"admin":                         "default",
		"admin.tls.cert_file":           "default",
		"log.level":                     "OPSGATE_LOG_LEVEL",
		"upstreams.fleet.address":       "the test",
		"rate_limit.limits[0].requests": "opsgate.yaml:7",
		"rate_limit.limits[1]":          "opsgate.yaml:8",
		"rate_limit.limits[1].per":      "opsgate.yaml:9",
		"rate_limit.limits[1].name":     "opsgate.yaml:8",
		`rate_limit.tokens.00000000-0000-4000-8000-000000000009`:              "opsgate.yaml:11",
		`rate_limit.tokens.00000000-0000-4000-8000-000000000009.owner`:        "opsgate.yaml:13",
		`rate_limit.tokens.00000000-0000-4000-8000-000000000009.reason`:       "opsgate.yaml:11",
		"rate_limit.teams.20000000-0000-4000-8000-000000000001.limits[0].per": "OPSGATE_RATE_LIMIT_TEAMS",
		"rate_limit.classes": "default",
		"no.such.key":        "default",
	} {
		if origin := got.Origin(key); origin != want {
			t.Errorf("%s: got %s, want %s", key, origin, want)
		}
	}
}

func TestAReplacedListHasOnlyNewOrigins(t *testing.T) {
	got := loadText(t, limited, "OPSGATE_RATE_LIMIT_LIMITS=[{requests: 7, per: 1h}]", "OPSGATE_RATE_LIMIT_TOKENS={}")
	if origin := got.Origin("rate_limit.limits[0].name"); origin != "OPSGATE_RATE_LIMIT_LIMITS" {
		t.Errorf("got %s", origin)
	}
	if len(got.RateLimit.Limits) != 1 || len(got.RateLimit.Tokens) != 0 {
		t.Errorf("got %+v", got.RateLimit)
	}
}

func TestEffectiveReturnsEveryValue(t *testing.T) {
	got := loadText(t, limited, "OPSGATE_ADMIN_TOKEN=correct-horse-battery")
	values := make(map[string]config.Value)
	for _, value := range got.Effective() {
		if _, twice := values[value.Key]; twice {
			t.Errorf("%s is returned twice", value.Key)
		}
		values[value.Key] = value
	}
	for _, want := range []config.Value{
		{Key: "listen", Value: "127.0.0.1:1", Origin: "opsgate.yaml:1"},
		{Key: "admin.token", Value: "(hidden)", Origin: "OPSGATE_ADMIN_TOKEN"},
		{Key: "rate_limit.redis.password", Origin: "default"},
		{Key: "trusted_proxies", Value: "[]", Origin: "default"},
		{Key: "rate_limit.classes", Value: "{}", Origin: "default"},
		{Key: "rate_limit.redis.addresses[0]", Value: "127.0.0.1:6379", Origin: "default"},
		{Key: "rate_limit.limits[1].name", Value: "minute", Origin: "opsgate.yaml:8"},
		{Key: "tracing.sample", Value: "1%", Origin: "default"},
		{Key: `rate_limit.tokens.00000000-0000-4000-8000-000000000009.limits[0].requests`, Value: "1", Origin: "opsgate.yaml:12"},
		{Key: `rate_limit.tokens.00000000-0000-4000-8000-000000000009.expires`, Origin: "opsgate.yaml:11"},
	} {
		if diff := cmp.Diff(want, values[want.Key]); diff != "" {
			t.Error(diff)
		}
	}
	for _, key := range config.Keys() {
		matches := func(name string) bool {
			return name == key.Name || strings.HasPrefix(name, key.Name+"[") || strings.HasPrefix(name, key.Name+".")
		}
		if !slices.ContainsFunc(got.Effective(), func(v config.Value) bool { return matches(v.Key) }) {
			t.Errorf("%s is not returned", key.Name)
		}
	}
}

func TestTheVersionDependsOnlyOnValues(t *testing.T) {
	version := loadText(t, limited).Version()
	if len(version) != 12 {
		t.Errorf("got %q", version)
	}
	for name, same := range map[string]config.Loaded{
		"another place":   loadText(t, strings.Replace(limited, "listen: 127.0.0.1:1", "", 1), "OPSGATE_LISTEN=127.0.0.1:1"),
		"a comment":       loadText(t, "# nothing\n"+limited),
		"another order":   loadText(t, strings.Replace(limited, "- {requests: 3, per: 1s}", "- {per: 1000ms, name: second, requests: 3}", 1)),
		"a default":       loadText(t, limited+"authn: {fresh_for: 30s}\n"),
		"other addresses": loadText(t, limited, "OPSGATE_LISTEN=127.0.0.1:3", "OPSGATE_ADMIN_LISTEN=127.0.0.1:4"),
		"another secret":  loadText(t, limited, "OPSGATE_ADMIN_TOKEN=correct-horse-battery"),
	} {
		if got := same.Version(); got != version {
			t.Errorf("%s: got %s, want %s", name, got, version)
		}
	}
	seen := map[string]string{version: "itself"}
	for _, change := range [][2]string{
		{"requests: 3,", "requests: 4,"}, {"00000000-0000-4000-8000-000000000009", "00000000-0000-4000-8000-000000000008"}, {"owner: ops", "owner: sre"},
		{"owner: ops", "reason: ops"}, {"per: 1m", "per: 1m\n      shadow: true"}, {"owner: ops", "expires: 2126-01-31T12:00:00Z"},
		{"level: info", "access: false"},
	} {
		got := loadText(t, strings.Replace(limited, change[0], change[1], 1)).Version()
		if other, taken := seen[got]; taken {
			t.Errorf("%q has the version of %s", change[1], other)
		}
		seen[got] = change[1]
	}
}

func TestFilesReturnsEveryFileOfAConfiguration(t *testing.T) {
	dir := t.TempDir()
	content, err := os.ReadFile("testdata/certificate.pem")
	testkit.Must(t, err)
	for _, name := range []string{"password", "ca.pem"} {
		testkit.Must(t, os.WriteFile(filepath.Join(dir, name), content, 0o600))
	}
	password, ca := filepath.Join(dir, "password"), filepath.Join(dir, "ca.pem")
	got := loadText(t, "rate_limit: {redis: {password: \"${file:"+password+"}\", sentinel_password: \"${file:"+password+"}\", mode: sentinel, master_name: x, tls: {enabled: true, ca_file: "+ca+"}}}\n")
	if diff := cmp.Diff([]string{"opsgate.yaml", password, ca}, got.Files()); diff != "" {
		t.Error(diff)
	}
	elsewhere := got
	elsewhere.RateLimit.Redis.TLS.CAFile = config.File(password)
	if elsewhere.Version() != got.Version() {
		t.Error("the version depends on a path")
	}
	if elsewhere.RateLimit.Redis.TLS.CAFile = ""; elsewhere.Version() == got.Version() {
		t.Error("the version does not depend on whether there is a file")
	}
	without, err := config.Load(config.Options{NoFile: true, Defaults: upstreams()})
	if err != nil || len(without.Files()) != 0 {
		t.Errorf("got %v, %v", without.Files(), err)
	}
}

func TestChangedKeysThatNeedARestartAreReported(t *testing.T) {
	const listen, password = "admin: {listen: 127.0.0.1:2}\n", "OPSGATE_RATE_LIMIT_REDIS_PASSWORD=hunter2"
	running := loadText(t, listen, password)
	for _, test := range []struct {
		name, text, variable string
		want                 string
	}{
		{"nothing", listen, password, ""},
		{"what can", listen + "log: {level: debug}\nrate_limit: {limits: [{requests: 1, per: 1s}]}\n" +
			"upstreams: {fleet: {address: \"fleet.internal:9001\"}}\n", password, ""},
		{"the password of Redis", listen, "OPSGATE_RATE_LIMIT_REDIS_PASSWORD=hunter3", ""},
		{"the admin token", "admin: {listen: 127.0.0.1:2, token: \"${TOKEN}\"}\n", password, ""},
		{"the token for metrics", "admin: {listen: 127.0.0.1:2, metrics_token: \"${TOKEN}\"}\n", password, ""},
		{"a secret", listen + "rate_limit: {redis: {mode: sentinel, master_name: main, sentinel_password: \"${TOKEN}\"}}\n", password, strings.Join([]string{
			"opsgate.yaml:2: rate_limit.redis.mode: a change needs a restart (connected at start)",
			"opsgate.yaml:2: rate_limit.redis.master_name: a change needs a restart (connected at start)",
			"opsgate.yaml:2: rate_limit.redis.sentinel_password: a change needs a restart (connected at start)",
		}, "\n")},
		{"several", "log:\n  format: text\nrate_limit:\n  redis: {addresses: [\"a:1\", \"b:1\"]}\n", password, strings.Join([]string{
			"opsgate.yaml:2: log.format: a change needs a restart (made at start)",
			"opsgate.yaml:4: rate_limit.redis.addresses: a change needs a restart (connected at start)",
			"opsgate.yaml: admin.listen: a change needs a restart (opened at start)",
		}, "\n")},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := config.RestartProblems(running, loadText(t, test.text, test.variable, "TOKEN=correct-horse-battery"))
			if got.Error() != test.want {
				t.Errorf("got\n%s\nwant\n%s", got, test.want)
			}
		})
	}
}

func TestWarningsOfLimitsWithoutEffect(t *testing.T) {
	got := loadText(t, `rate_limit:
  store: redis
  expected_replicas: 1
  classes:
    named-by-identity: {limits: [{requests: 1, per: 1s}]}
    partner:
      limits: [{requests: 1, per: 1s}]
      teams: [10000000-0000-4000-8000-000000000001]
      expires: 2026-01-31T13:00:00+01:00
  teams:
    10000000-0000-4000-8000-000000000001: {limits: [{requests: 1, per: 1s}], expires: 2026-01-31T12:00:01Z}
  tokens:
    00000000-0000-4000-8000-000000000001:
      limits: [{requests: 1, per: 1s}]
      expires: 2025-12-31T00:00:00Z
`)
	want := `opsgate.yaml:3: rate_limit.expected_replicas: is 1: in an outage of Redis, each gateway admits the full limits; auto counts the gateways
opsgate.yaml:9: rate_limit.classes.partner.expires: was 2026-01-31T12:00:00Z: the limits of this key have no effect any more
opsgate.yaml:15: rate_limit.tokens.00000000-0000-4000-8000-000000000001.expires: was 2025-12-31T00:00:00Z: the limits of this key have no effect any more`
	if got.Warnings.Error() != want {
		t.Errorf("got\n%s\nwant\n%s", got.Warnings, want)
	}
}

func TestWarningsOfValidButRiskyValues(t *testing.T) {
	got := loadText(t, `trusted_proxies: [10.0.0.0/8, 0.0.0.0/0]
listen: :8080
admin: {listen: "0.0.0.0:9090", token: "${ADMIN_TOKEN}"}
authn: {stale_for: 2h}
http: {proxy_protocol: {from: ["::/0"]}}
shutdown:
  drain_wait: 0s
  grace: 5s
rate_limit:
  limits:
    - {requests: 3, per: 1s}
    - {requests: 181, per: 1m}
    - {requests: 10800, per: 1h}
    - {requests: 0, per: 1ms}
  tokens:
    00000000-0000-4000-8000-000000000001: {limits: [{requests: 3, per: 1s, shadow: true}, {requests: 5, per: 2s}, {requests: 16, per: 5s}]}
`, "ADMIN_TOKEN=0123456789abcdef")
	want := `opsgate.yaml:1: trusted_proxies[1]: is every address: any client can claim any address in the audit log
opsgate.yaml:3: admin.token: goes over the network in plaintext: set admin.tls.cert_file and key_file
opsgate.yaml:4: authn.stale_for: is 2h: a revoked token may be accepted for that time while the identity service is unavailable
opsgate.yaml:5: http.proxy_protocol.from[0]: is every address: any client can claim any address in the audit log
opsgate.yaml:7: shutdown.drain_wait: is 0s: load balancers have no time to stop sending requests before the listener closes
opsgate.yaml:8: shutdown.grace: is 5s, less than http.body_timeout and the longest timeout of a request together, 15s: slow requests are cut off
opsgate.yaml:12: rate_limit.limits[1].requests: is 181, which no token reaches: 3 per 1s admit 180 in 1m
opsgate.yaml:14: rate_limit.limits[3].requests: is 0: every token without other limits is blocked
opsgate.yaml:16: rate_limit.tokens.00000000-0000-4000-8000-000000000001.limits[2].requests: is 16, which no token reaches: 5 per 2s admit 15 in 5s`
	if got.Warnings.Error() != want {
		t.Errorf("got\n%s\nwant\n%s", got.Warnings, want)
	}
}

func TestChangesOmitDerivedValues(t *testing.T) {
	const one = "rate_limit:\n  tokens:\n    00000000-0000-4000-8000-000000000001: {limits: [{requests: 5, per: 1m}], owner: ada}\n"
	for _, test := range []struct {
		name          string
		before, after string
		want          []string
	}{
		{"nothing", limited, limited, nil},
		{"a value", "http: {idle_timeout: 1m}", "http: {idle_timeout: 2m}", []string{"http.idle_timeout: 1m, now 2m"}},
		{"a value instead of the default", "", "log: {level: debug}", []string{"log.level: info, now debug"}},
		{"the default again", "log: {level: debug}", "", []string{"log.level: debug, now info"}},
		{"the default in words", "", "log: {level: info}", nil},
		{"a text that is emptied", "rate_limit: {redis: {username: ada}}", "", []string{`rate_limit.redis.username: ada, now ""`}},
		{"the first entry", "rate_limit: {tokens: {}}", one, []string{
			"rate_limit.tokens.00000000-0000-4000-8000-000000000001.limits[0].requests: now 5", "rate_limit.tokens.00000000-0000-4000-8000-000000000001.limits[0].per: now 1m",
			"rate_limit.tokens.00000000-0000-4000-8000-000000000001.owner: now ada",
		}},
		{"the last entry", one, "", []string{
			"rate_limit.tokens.00000000-0000-4000-8000-000000000001.limits[0].requests: 5, now removed", "rate_limit.tokens.00000000-0000-4000-8000-000000000001.limits[0].per: 1m, now removed",
			"rate_limit.tokens.00000000-0000-4000-8000-000000000001.owner: ada, now removed",
		}},
		{"an interval, which names its limit", "rate_limit: {limits: [{requests: 5, per: 1m}]}", "rate_limit: {limits: [{requests: 5, per: 1h}]}", []string{
			"rate_limit.limits[0].per: 1m, now 1h",
		}},
		{"a name", "rate_limit: {limits: [{name: few, requests: 5, per: 1m}]}", "rate_limit: {limits: [{requests: 5, per: 1m}]}", []string{
			"rate_limit.limits[0].name: few, now minute",
		}},
		{"limits instead of those by default", "", "rate_limit: {limits: [{requests: 5, per: 1m}]}", []string{
			"rate_limit.limits[0].requests: 3, now 5", "rate_limit.limits[0].per: 1s, now 1m",
			"rate_limit.limits[1].name: hour, now removed", "rate_limit.limits[1].requests: 5000, now removed", "rate_limit.limits[1].per: 1h, now removed",
		}},
		{"an item that is gone", "trusted_proxies: [10.0.0.0/8]", "trusted_proxies: []", []string{"trusted_proxies[0]: 10.0.0.0/8, now removed"}},
		{"a shadow that falls", "rate_limit: {limits: [{requests: 5, per: 1s}, {requests: 5, per: 1m, shadow: true}]}", "rate_limit: {limits: [{requests: 5, per: 1s}, {requests: 5, per: 1m}]}", []string{
			"rate_limit.limits[1].shadow: true, now false",
		}},
		{"a secret", `admin: {token: "${ONE}"}`, `admin: {token: "${TWO}"}`, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			secrets := []string{"ONE=correct-horse-battery", "TWO=battery-horse-correct"}
			got := config.Changes(loadText(t, test.before, secrets...), loadText(t, test.after, secrets...))
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestSchemaKeyIsBounded(t *testing.T) {
	for key, want := range map[string]string{
		"":                             "file",
		"admin.listen":                 "admin.listen",
		"rate_limit.limits[0].per":     "rate_limit.limits",
		`rate_limit.tokens."a.b".x`:    "rate_limit.tokens",
		"rate_limit.classes.gold":      "rate_limit.classes",
		"trusted_proxies[3]":           "trusted_proxies",
		"http.max_bodi_bytes":          "http",
		"upstreams.fleet.tls.ca_fille": "upstreams.fleet.tls",
		"listn":                        "unknown",
		"listn.fleet":                  "unknown",
	} {
		if got := (config.Problem{Key: key}).SchemaKey(); got != want {
			t.Errorf("%q: got %q, want %q", key, got, want)
		}
	}
}
