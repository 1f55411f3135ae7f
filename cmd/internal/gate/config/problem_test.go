package config_test

import (
	"testing"

	"opsgate/cmd/internal/gate/config"
)

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
