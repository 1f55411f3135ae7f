package config_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"opsgate/cmd/internal/gate/config"
)

func TestChangesOmitDerivedValues(t *testing.T) {
	const one = "rate_limit:\n  tokens:\n    tok-1: {limits: [{requests: 5, per: 1m}], owner: ada}\n"
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
		{"a text that is emptied", "rate_limit: {demand: {file: /tmp/a}}", "", []string{`rate_limit.demand.file: /tmp/a, now ""`}},
		{"the first entry", "rate_limit: {tokens: {}}", one, []string{
			"rate_limit.tokens.tok-1.limits[0].requests: now 5", "rate_limit.tokens.tok-1.limits[0].per: now 1m",
			"rate_limit.tokens.tok-1.owner: now ada",
		}},
		{"the last entry", one, "", []string{
			"rate_limit.tokens.tok-1.limits[0].requests: 5, now removed", "rate_limit.tokens.tok-1.limits[0].per: 1m, now removed",
			"rate_limit.tokens.tok-1.owner: ada, now removed",
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
			secrets := []string{"ONE=correct horse battery", "TWO=battery horse correct"}
			got := config.Changes(loadText(t, test.before, secrets...), loadText(t, test.after, secrets...))
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}
