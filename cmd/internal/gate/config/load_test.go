package config_test

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"opsgate/cmd/internal/gate/config"
	"opsgate/internal/testkit"
)

// now is the clock of the tests.
var now = time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)

// load loads a file without variables and flags.
func load(path string) (config.Loaded, error) {
	return config.Load(config.Options{Path: path, Environment: []string{
		"TEST_REDIS_PASSWORD=hunter2", "TEST_ADMIN_TOKEN=correct-horse-battery", "TEST_METRICS_TOKEN=another-horse-battery",
		"TEST_SHORT_TOKEN=hunter2",
		"TEST_TOKEN_WITH_SPACE=correct horse battery",
		"TEST_COLLECTOR_HEADERS=api-key=hunter2,tenant=a%2Cb",
	}, Now: func() time.Time { return now }})
}

// The first lines of a bad file are the expected problems, as "# want: LINE: KEY: TEXT"; "@@" at
// the end stands for the text of another package.
func TestBadFiles(t *testing.T) {
	files, err := filepath.Glob("testdata/*.bad.yaml")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			_, err := load(file)
			var problems config.Problems
			if !errors.As(err, &problems) {
				t.Fatalf("got %v, want problems", err)
			}
			got := strings.Split(problems.Error(), "\n")
			want := wanted(t, file)
			for i := range max(len(got), len(want)) {
				if i >= len(got) || i >= len(want) || !matches(got[i], want[i]) {
					t.Fatalf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
				}
			}
		})
	}
}

func wanted(t *testing.T, file string) []string {
	t.Helper()
	content, err := os.ReadFile(file)
	testkit.Must(t, err)
	var want []string
	for line := range strings.Lines(string(content)) {
		text, ok := strings.CutPrefix(strings.TrimSpace(line), "# want: ")
		switch {
		case !ok:
		case text[0] >= '0' && text[0] <= '9':
			want = append(want, file+":"+text)
		default:
			want = append(want, file+": "+text)
		}
	}
	return want
}

// The YAML library has no line for these.
func TestEachSyntaxErrorHasItsLine(t *testing.T) {
	for text, line := range map[string]int{
		"listen: *nowhere\n":                      1,
		"log:\n  level: info\n  format: *hunter2": 3,
		"@listen: x\n":                            1,
		"listen: x\n# \xff\n":                     2,
		"listen: x\n\ttls: y\n":                   2,
		"log:\n\n  level: \"in\x01fo\"\n":         3,
		"listen: x\nlog: {level: \x7f}\n":         2,
		"%YAML 9.9\n---\nlisten: x\n":             1,
	} {
		file := write(t, text)
		_, err := load(file)
		if want := fmt.Sprintf("%s:%d: is not YAML: ", file, line); err == nil || !strings.HasPrefix(err.Error(), want) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%q: got %v, want %q", text, err, want)
		}
	}
}

func matches(got, want string) bool {
	if begin, ok := strings.CutSuffix(want, "@@"); ok {
		return strings.HasPrefix(got, begin) && len(got) > len(begin)
	}
	return got == want
}

func TestAnEmptyFileKeepsTheDefaults(t *testing.T) {
	got, err := load("testdata/minimal.good.yaml")
	testkit.Must(t, err)
	want := config.Default()
	want.Upstreams = got.Upstreams
	if diff := cmp.Diff(want, got.Config, compareSecrets()); diff != "" {
		t.Error(diff)
	}
	if got.Upstreams.Identity.Address != "identity.internal:9000" {
		t.Errorf("got %+v", got.Upstreams)
	}
}

// The file sets every kind of value; TestEveryVariableSetsItsKey sets every key.
func TestEveryKindOfValueCanBeSetInAFile(t *testing.T) {
	got, err := load("testdata/full.good.yaml")
	testkit.Must(t, err)
	limits := got.RateLimit
	limits = config.RateLimit{Limits: limits.Limits, Classes: limits.Classes, Teams: limits.Teams, Tokens: limits.Tokens}
	if diff := cmp.Diff(fullLimits(), limits, compareSecrets()); diff != "" {
		t.Error(diff)
	}
	networks := []config.Network{{Prefix: netip.MustParsePrefix("10.0.0.0/8")}, {Prefix: netip.MustParsePrefix("2001:db8::/32")}}
	for _, value := range []struct {
		key       string
		got, want any
	}{
		{"admin.token", got.Admin.Token.Reveal(), "correct-horse-battery"},
		{"admin.tls.key_file", got.Admin.TLS.KeyFile, config.File("testdata/certificate.pem")},
		{"trusted_proxies", got.TrustedProxies, networks},
		{"http.proxy_protocol.from", got.HTTP.ProxyProtocol.From, []config.Network{{Prefix: netip.MustParsePrefix("10.1.0.0/16")}}},
		{"http.request_timeout", got.HTTP.RequestTimeout, config.Duration(1500 * time.Millisecond)},
		{"http.max_body_bytes", got.HTTP.MaxBodyBytes, config.Bytes(1 << 20)},
		{"http.max_connections", got.HTTP.MaxConnections, config.Number(500)},
		{"routes", got.Routes["v1Me"].Timeout, config.Duration(500 * time.Millisecond)},
		{"rate_limit.redis.addresses", got.RateLimit.Redis.Addresses, []string{"redis-0.internal:26379", "redis-1.internal:26379"}},
		{"rate_limit.redis.database", got.RateLimit.Redis.Database, 2},
		{"log.level", got.Log.Level, config.LevelDebug},
		{"log.access", got.Log.Access, false},
		{"log.access_sample", got.Log.AccessSample, config.Percent(25_000)},
		{"tracing.headers", got.Tracing.Headers.Reveal(), "api-key=hunter2,tenant=a%2Cb"},
	} {
		if !reflect.DeepEqual(value.got, value.want) {
			t.Errorf("%s: got %v, want %v", value.key, value.got, value.want)
		}
	}
}

// fullLimits returns the lists of limits in testdata/full.good.yaml.
func fullLimits() config.RateLimit {
	const (
		second = config.Duration(time.Second)
		minute = 60 * second
	)
	return config.RateLimit{
		Limits: []config.Limit{
			{Name: "10s", Requests: 10, Per: 10 * second},
			{Name: "minute", Requests: 100, Per: minute},
			{Name: "day", Requests: 10000, Per: 24 * 60 * minute},
			{Name: "busy-hour", Requests: 500, Per: 60 * minute, Shadow: true},
		},
		Classes: config.Classes{
			"partner": {
				Limits: []config.Limit{{Name: "second", Requests: 10, Per: second}},
				Teams:  []string{"10000000-0000-4000-8000-000000000001", "10000000-0000-4000-8000-000000000002"}, Tokens: []string{"00000000-0000-4000-8000-000000000003"}, Owner: "Partner team", Reason: "Contract 12",
				Expires: config.Time{Time: time.Date(2126, 1, 31, 12, 0, 0, 0, time.UTC)},
			},
			"trial.2": {Limits: []config.Limit{{Name: "second", Requests: 1, Per: second}}, Tokens: []string{"00000000-0000-4000-8000-000000000004"}},
		},
		Teams: config.Overrides{"10000000-0000-4000-8000-000000000007": {
			Limits: []config.Limit{{Name: "second", Requests: 20, Per: second}}, Owner: "ops", Reason: "Migration",
			Expires: config.Time{Time: time.Date(2126, 2, 1, 0, 0, 0, 0, time.UTC)},
		}},
		Tokens: config.Overrides{"00000000-0000-4000-8000-000000000005": {
			Limits: []config.Limit{{Name: "minute", Requests: 1, Per: minute}}, Owner: "ops", Reason: "It floods us",
		}},
	}
}

// compareSecrets makes cmp compare networks as a whole and ignore the fields of secrets.
func compareSecrets() cmp.Option {
	return cmp.Options{
		cmpopts.EquateEmpty(),
		cmp.Comparer(func(a, b config.Network) bool { return a == b }),
		cmp.Comparer(func(config.Secret, config.Secret) bool { return true }),
	}
}

// A limit in shadow evaluates another number of requests for an interval whose limit is enforced.
func TestShadowLimitMayHaveTheIntervalOfAnother(t *testing.T) {
	got, err := load("testdata/shadow.good.yaml")
	testkit.Must(t, err)
	if l := got.RateLimit.Limits; len(l) != 2 || l[0].Per != l[1].Per || l[0].Shadow || !l[1].Shadow {
		t.Errorf("got %+v", l)
	}
}

func TestAnchorsAreAccepted(t *testing.T) {
	got, err := load("testdata/shared-address.good.yaml")
	testkit.Must(t, err)
	if want := (config.Upstream{Address: "backend.internal:9000"}); got.Upstreams.Fleet != want || got.Upstreams.Identity != want {
		t.Errorf("got %+v", got.Upstreams)
	}
}

// The aliases expand to 50,000 classes with 50,000 ids each.
func TestAliasesCannotDelayALoad(t *testing.T) {
	text := new(strings.Builder)
	fmt.Fprintf(text, "rate_limit:\n  classes:\n    a: &a {limits: [{requests: 1, per: 1s}], tokens: [%s]}\n", strings.Repeat("x, ", 50_000))
	for i := range 50_000 {
		fmt.Fprintf(text, "    c%d: *a\n", i)
	}
	began := time.Now()
	_, err := load(write(t, text.String()))
	if err == nil || !strings.Contains(err.Error(), "aliases included") {
		t.Errorf("the error does not mention aliases")
	}
	t.Logf("refused in %s", time.Since(began))
}

func TestLayersOverrideEachOther(t *testing.T) {
	file := write(t, "listen: 127.0.0.1:1\nadmin: {listen: 127.0.0.1:1001}\nlog: {level: warn}\n")
	options := config.Options{
		Path:     file,
		Defaults: append(upstreams(), config.Setting{Key: "log.format", Value: "text", From: "preset"}, config.Setting{Key: "log.level", Value: "debug", From: "preset"}),
		Environment: []string{
			"OPSGATE_LISTEN=127.0.0.1:2", "OPSGATE_ADMIN_LISTEN=127.0.0.1:2002", "OPSGATE_TOKEN_PREFIX=", "PATH=/bin",
		},
		Flags: []config.Setting{{Key: "listen", Value: "127.0.0.1:3", From: "--listen"}},
	}
	got, err := config.Load(options)
	testkit.Must(t, err)
	for _, c := range []struct{ what, got, want string }{
		{"a flag over a variable", got.Listen, "127.0.0.1:3"},
		{"a variable over the file", got.Admin.Listen, "127.0.0.1:2002"},
		{"the file over a program's default", string(got.Log.Level), "warn"},
		{"a program's default over ours", string(got.Log.Format), "text"},
		{"an empty variable is none", got.TokenPrefix, "ops_"},
	} {
		if c.got != c.want {
			t.Errorf("%s: got %q, want %q", c.what, c.got, c.want)
		}
	}
}

func TestProblemsNameTheVariableOrFlag(t *testing.T) {
	_, err := config.Load(config.Options{
		NoFile:      true,
		Defaults:    upstreams(),
		Environment: []string{"OPSGATE_LOG_LEVEL=loud", "OPSGATE_RATE_LIMIT_LIMITS=[{requests: 0, per: 1s}", "OPSGATE_HTTP_IDLE_TIMEOUT=9h"},
		Flags:       []config.Setting{{Key: "listen", Value: "8080", From: "--listen"}, {Key: "nothing", Value: "1", From: "--nothing"}},
	})
	want := []string{
		`--listen: listen: must be an address like 127.0.0.1:8080 or :8080, not "8080"`,
		`--nothing: nothing: is not a key`,
		`OPSGATE_HTTP_IDLE_TIMEOUT: http.idle_timeout: must be 1s to 1h, not 9h`,
		`OPSGATE_LOG_LEVEL: log.level: must be debug or info or warn or error, not "loud"`,
		`OPSGATE_RATE_LIMIT_LIMITS: rate_limit.limits: is not YAML: `,
	}
	if err == nil {
		t.Fatal("no problem")
	}
	got := strings.Split(err.Error(), "\n")
	if !slices.EqualFunc(got, want, strings.HasPrefix) {
		t.Errorf("got\n%s\nwant\n%s", err, strings.Join(want, "\n"))
	}
}

func TestFilePathPrecedence(t *testing.T) {
	inVariable, inFlag := write(t, "listen: 127.0.0.1:1\n"), write(t, "listen: 127.0.0.1:2\n")
	environment := []string{config.PathVariable + "=" + inVariable}
	for _, test := range []struct {
		name    string
		options config.Options
		want    string
	}{
		{"a flag precedes the variable", config.Options{Path: inFlag, Environment: environment}, "127.0.0.1:2"},
		{"the variable without a flag", config.Options{Environment: environment}, "127.0.0.1:1"},
		{"NoFile ignores the variable", config.Options{NoFile: true, Environment: environment}, config.Default().Listen},
	} {
		t.Run(test.name, func(t *testing.T) {
			test.options.Defaults = upstreams()
			got, err := config.Load(test.options)
			if err != nil || got.Listen != test.want {
				t.Errorf("got %q, %v, want %q", got.Listen, err, test.want)
			}
		})
	}
}

func TestAFileThatCannotBeReadIsAnError(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "missing.yaml")
	if _, err := load(missing); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v", err)
	}
	if _, err := load(write(t, "# "+strings.Repeat("x", 1<<20))); err == nil || !strings.Contains(err.Error(), "larger than 1048576 bytes") {
		t.Errorf("got %v", err)
	}
}

// upstreams returns the settings that every configuration requires.
func upstreams() []config.Setting {
	var settings []config.Setting
	for _, service := range []string{"fleet", "monitoring", "incident", "audit", "identity"} {
		key := fmt.Sprintf("upstreams.%s.address", service)
		settings = append(settings, config.Setting{Key: key, Value: "127.0.0.1:1", From: "the test"})
	}
	return settings
}

func write(t *testing.T, content string) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "opsgate.yaml")
	testkit.Must(t, os.WriteFile(path, []byte(content), 0o600))
	return path
}
