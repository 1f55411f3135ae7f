package config_test

import (
	"fmt"
	"strings"
	"testing"
)

func TestWarningOfPlaintextToUpstreamsOutsideLoopback(t *testing.T) {
	for address, warned := range map[string]bool{
		"127.0.0.1:9000":                false,
		"localhost:9000":                false,
		"[::1]:9000":                    false,
		"dns:localhost:9000":            false,
		"dns:///127.0.0.1:9000":         false,
		"dns://10.0.0.53/[::1]:9000":    false,
		"passthrough:///localhost:1":    false,
		"unix:///run/identity.sock":     false,
		"static:///[::1]:1,127.0.0.1:1": false,
		"static:///[::1]:1,10.0.0.7:1":  true,
		"10.0.0.7:9000":                 true,
		"identity.internal:9000":        true,
		"dns:identity.internal:9000":    true,
		"dns:///identity:9000":          true,
		"dns://127.0.0.1/identity:9":    true, // the name server is on loopback, the service is not
		"passthrough:///10.0.0.7:9000":  true,
		"127.0.0.1.evil.example:9000":   true,
	} {
		for _, service := range []string{"identity", "fleet"} {
			consequence := "read and change calls and answers"
			if service == "identity" {
				consequence = "have any token accepted"
			}
			want := fmt.Sprintf("OPSGATE_UPSTREAMS_%[1]s_ADDRESS: upstreams.%[2]s.address: is %[3]s, not on loopback, and upstreams.%[2]s.tls.enabled is false: "+
				"an attacker on the network can %[4]s", strings.ToUpper(service), service, address, consequence)
			variable := "OPSGATE_UPSTREAMS_" + strings.ToUpper(service) + "_ADDRESS=" + address
			if !warned {
				want = ""
			}
			if got := loadText(t, "", variable).Warnings.Error(); got != want {
				t.Errorf("%s: got %q, want %q", address, got, want)
			}
			secured := "OPSGATE_UPSTREAMS_" + strings.ToUpper(service) + "_TLS_ENABLED=true"
			if got := loadText(t, "", variable, secured).Warnings.Error(); got != "" {
				t.Errorf("%s with TLS: got %q", address, got)
			}
		}
	}
}

func TestWarningOfARedisPasswordInPlaintext(t *testing.T) {
	for _, test := range []struct{ name, redis, want string }{
		{"loopback", `password: "${SECRET}"`, ""},
		{"no password", `addresses: ["redis:6379"]`, ""},
		{"TLS", `{addresses: ["redis:6379"], password: "${SECRET}", tls: {enabled: true}}`, ""},
		{"a server", `{addresses: ["redis:6379"], password: "${SECRET}"}`,
			"opsgate.yaml:1: rate_limit.redis.password: goes to redis:6379 in plaintext: set rate_limit.redis.tls.enabled"},
		{"a cluster, of which one server is elsewhere", `{addresses: ["127.0.0.1:6379", "redis-1:6379", "redis-2:6379"], password: "${SECRET}"}`,
			"opsgate.yaml:1: rate_limit.redis.password: goes to redis-1:6379 in plaintext: set rate_limit.redis.tls.enabled"},
		{"sentinels", `{mode: sentinel, master_name: m, addresses: ["redis:26379"], sentinel_password: "${SECRET}"}`,
			"opsgate.yaml:1: rate_limit.redis.sentinel_password: goes to redis:26379 in plaintext: set rate_limit.redis.tls.enabled"},
	} {
		if !strings.HasPrefix(test.redis, "{") {
			test.redis = "{" + test.redis + "}"
		}
		text := "rate_limit: {store: redis, expected_replicas: 2, redis: " + test.redis + "}\n"
		got := loadText(t, text, "SECRET=hunter2").Warnings.Error()
		if got != test.want || strings.Contains(got, "hunter2") {
			t.Errorf("%s: got %q, want %q", test.name, got, test.want)
		}
		unused := strings.Replace(text, "store: redis", "store: memory", 1)
		if got := loadText(t, unused, "SECRET=hunter2").Warnings.Error(); got != "" {
			t.Errorf("%s, without Redis: got %q", test.name, got)
		}
	}
}
