package config_test

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"opsgate/cmd/internal/gate/config"
	"opsgate/internal/testkit"
)

func TestEveryVariableSetsItsKey(t *testing.T) {
	values := map[string]string{ // of keys whose value does not follow from their type
		"listen": "127.0.0.1:1", "admin.listen": "127.0.0.1:2", "token_prefix": "acme_", "trusted_proxies": "10.0.0.0/8, 192.0.2.0/24",
		"public_url": "https://api.acme.example", "security_contact": "mailto:security@acme.example",
		"http.proxy_protocol.from": "192.0.2.0/24", "http.write_timeout": "40s", "http.request_timeout": "17s", "authn.stale_for": "20m", "routes": "{v1Me: {timeout: 7s}}",
		"rate_limit.redis.addresses": `["redis:1", "redis:2"]`, "rate_limit.redis.database": "3",
		"rate_limit.limits":  "[{requests: 7, per: 1m}]",
		"rate_limit.classes": "{partner: {limits: [{requests: 7, per: 1m}], teams: [10000000-0000-4000-8000-000000000001]}}",
		"rate_limit.teams":   "{10000000-0000-4000-8000-000000000001: {limits: [{requests: 7, per: 1m}]}}",
		"rate_limit.tokens":  "\n00000000-0000-4000-8000-000000000001:\n  limits: [{requests: 7, per: 1m}]\n",
		"tracing.endpoint":   "http://collector:4318", "tracing.headers": "api-key=hunter2",
	}
	schema := orderedSchema(t)
	for _, key := range config.Keys() {
		value, property := values[key.Name], property(schema, key.Name)
		switch {
		case value != "":
		case key.Min != "":
			value = key.Min
		case property.Type == "boolean":
			value = strconv.FormatBool(property.Default != true)
		case property.Enum != nil:
			value = fmt.Sprint(property.Enum[slices.IndexFunc(property.Enum, func(v any) bool { return v != property.Default })])
		case strings.HasSuffix(key.Name, ".address"):
			value = "service.internal:9000"
		case strings.HasSuffix(key.Name, "_file"):
			value = "testdata/certificate.pem"
		default:
			value = "correct-horse-battery"
		}
		t.Run(key.Variable, func(t *testing.T) {
			defaults := append(upstreams(), companions(key.Name)...)
			before, err := config.Load(config.Options{NoFile: true, Defaults: defaults})
			testkit.Must(t, err)
			after, err := config.Load(config.Options{NoFile: true, Defaults: defaults, Environment: []string{key.Variable + "=" + value}})
			testkit.Must(t, err)
			revealed := after.RateLimit.Redis.Password.Reveal() + after.RateLimit.Redis.SentinelPassword.Reveal() + after.Admin.Token.Reveal() +
				after.Admin.MetricsToken.Reveal() + after.Tracing.Headers.Reveal()
			if cmp.Equal(before.Config, after.Config, compareSecrets()) && revealed == "" {
				t.Errorf("%s=%s changes nothing", key.Variable, value)
			}
			if got := after.Origin(key.Name); got != key.Variable {
				t.Errorf("%s comes from %s", key.Name, got)
			}
		})
	}
}

// companions returns the settings that a key requires. Its files differ from those of the test, so
// that a change is detected.
func companions(key string) []config.Setting {
	const other = "testdata/../testdata/certificate.pem"
	setting := func(key, value string) config.Setting {
		return config.Setting{Key: key, Value: value, From: "the test"}
	}
	switch {
	case strings.HasPrefix(key, "tls."):
		return []config.Setting{setting("tls.cert_file", other), setting("tls.key_file", other)}
	case strings.HasPrefix(key, "admin.tls."):
		return []config.Setting{setting("admin.tls.cert_file", other), setting("admin.tls.key_file", other)}
	case strings.HasPrefix(key, "tracing.tls."):
		return []config.Setting{setting("tracing.tls.cert_file", other), setting("tracing.tls.key_file", other)}
	case strings.Contains(key, ".tls.") && !strings.HasSuffix(key, ".enabled"):
		tls := key[:strings.LastIndex(key, ".")]
		return []config.Setting{
			setting(tls+".enabled", "true"), setting(tls+".cert_file", other), setting(tls+".key_file", other),
		}
	case strings.Contains(key, "sentinel") || strings.HasSuffix(key, "master_name"):
		return []config.Setting{setting("rate_limit.redis.mode", "sentinel"), setting("rate_limit.redis.master_name", "limits")}
	}
	return nil
}

func TestAVariableOfAnUnknownKeyIsAWarning(t *testing.T) {
	got, err := config.Load(config.Options{NoFile: true, Defaults: upstreams(), Environment: []string{
		"OPSGATE_LISTN=:1", "OPSGATE_SERVICE_HOST=10.0.0.1", "OPSGATE_SERVICE_PORT_HTTP=80", "OPSGATE_PORT=tcp://10.0.0.1:80",
		"OPSGATE_ADMIN_PORT_9090_TCP_ADDR=10.0.0.1",
	}})
	testkit.Must(t, err)
	if want := "OPSGATE_LISTN: sets no key of the configuration"; got.Warnings.Error() != want {
		t.Errorf("got %q, want %q", got.Warnings, want)
	}
}

// A mistyped variable may be the cause of a problem.
func TestWarningsAreReportedBesideProblems(t *testing.T) {
	for name, text := range map[string]string{"a value": "log: {level: loud}", "the syntax": "log: ["} {
		_, err := config.Load(config.Options{Path: write(t, text), Defaults: upstreams(), Environment: []string{"OPSGATE_LOG_LEVL=info"}})
		problems, ok := errors.AsType[config.Problems](err)
		if !ok || len(problems) != 2 || problems[0].Warning || problems[1].Error() != "warning: OPSGATE_LOG_LEVL: sets no key of the configuration" {
			t.Errorf("%s: got %v", name, err)
		}
	}
}
