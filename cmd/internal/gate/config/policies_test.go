package config_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"opsgate/cmd/internal/gate/config"
	"opsgate/internal/testkit"
	"opsgate/ratelimit"
)

const configured = `upstreams:
  fleet: &away {address: 127.0.0.1:1}
  monitoring: *away
  incident: *away
  audit: *away
  identity: *away
rate_limit:
  limits: [{requests: 3, per: 1s}]
  classes:
    partner:
      limits: [{requests: 30, per: 1s}, {requests: 10, per: 1m, shadow: true}]
      teams: [20000000-0000-4000-8000-000000000002]
      tokens: [00000000-0000-4000-8000-000000000001]
      owner: the partners' desk
      reason: contract
    gold: {limits: [{requests: 50, per: 1s}], expires: 2026-03-01T00:00:00Z}
  teams:
    20000000-0000-4000-8000-000000000001: {limits: [{requests: 5, per: 1s}], owner: ann, reason: migration, expires: 2026-02-01T00:00:00Z}
  tokens:
    00000000-0000-4000-8000-000000000002: {limits: [{requests: 1, per: 1s}], expires: 2026-01-01T00:00:00Z}
`

// load loads the configuration after replacing words in it.
func loadPolicies(t *testing.T, replaced ...string) config.Loaded {
	t.Helper()
	path := filepath.Join(t.TempDir(), "opsgate.yaml")
	content := strings.NewReplacer(replaced...).Replace(configured)
	testkit.Must(t, os.WriteFile(path, []byte(content), 0o600))
	loaded, err := config.Load(config.Options{Path: path})
	testkit.Must(t, err)
	return loaded
}

func madePolicies(t *testing.T, loaded config.Loaded, at time.Time, previous *ratelimit.Policies) *ratelimit.Policies {
	t.Helper()
	p, err := config.NewPolicies(loaded, at, previous)
	testkit.Must(t, err)
	return p
}

func day(year int, month time.Month, day int) time.Time {
	return time.Date(year, month, day, 0, 0, 0, 0, time.UTC)
}

func TestTheMostSpecificLimitsApplyUntilTheyExpire(t *testing.T) {
	loaded := loadPolicies(t)
	const token1, token2, token9 = "00000000-0000-4000-8000-000000000001", "00000000-0000-4000-8000-000000000002", "00000000-0000-4000-8000-000000000009"
	const team1, team2 = "20000000-0000-4000-8000-000000000001", "20000000-0000-4000-8000-000000000002"
	for _, test := range []struct {
		at                    time.Time
		team, token, identity string // identity is the class that it names
		class, key            string
	}{
		{day(2025, 12, 1), "other", token9, "", "default", "rate_limit.limits"},
		{day(2025, 12, 1), "other", token9, "unknown", "default", "rate_limit.limits"},
		{day(2025, 12, 1), "other", token9, "team", "default", "rate_limit.limits"}, // not a class
		{day(2025, 12, 1), "other", token9, "gold", "gold", "rate_limit.classes.gold"},
		{day(2025, 12, 1), team2, token9, "gold", "partner", "rate_limit.classes.partner"},
		{day(2025, 12, 1), "other", token1, "gold", "partner", "rate_limit.classes.partner"},
		{day(2025, 12, 1), team1, token1, "gold", "team", "rate_limit.teams." + team1},
		{day(2025, 12, 1), team1, token2, "gold", "token", "rate_limit.tokens." + token2},
		{day(2026, 1, 1), team1, token2, "gold", "team", "rate_limit.teams." + team1},
		{day(2026, 2, 1), team1, token2, "gold", "gold", "rate_limit.classes.gold"},
		{day(2026, 3, 1), team1, token2, "gold", "default", "rate_limit.limits"},
	} {
		p := madePolicies(t, loaded, test.at, nil)
		a := p.For(test.team, test.token, test.identity)
		misses := test.class == "default" && test.identity != ""
		if p.Misses(a, test.identity) != misses {
			t.Errorf("%+v: misses the class: %t", test, !misses)
		}
		if a.Class != test.class || a.Key != test.key || a.Origin != loaded.Origin(test.key) || !strings.Contains(a.Origin, ".yaml:") {
			t.Errorf("%+v: got %+v", test, a)
		}
	}
}

func TestAnAssignmentHasItsOwnerAndReason(t *testing.T) {
	p := madePolicies(t, loadPolicies(t), day(2025, 12, 1), nil)
	if a := p.For("20000000-0000-4000-8000-000000000001", "", ""); a.Owner != "ann" || a.Reason != "migration" || !a.Expires.Equal(day(2026, 2, 1)) {
		t.Errorf("got %+v", a)
	}
	a := p.For("20000000-0000-4000-8000-000000000002", "", "")
	if limits := a.Policy.Limits(); a.Owner != "the partners' desk" || a.Reason != "contract" || len(limits) != 2 || !limits[1].Shadow {
		t.Errorf("got %+v with %+v", a, limits)
	}
}

func TestNextExpiryIgnoresExpiredAssignments(t *testing.T) {
	loaded := loadPolicies(t)
	for _, test := range []struct{ at, next time.Time }{
		{day(2025, 12, 1), day(2026, 1, 1)}, {day(2026, 1, 1), day(2026, 2, 1)}, {day(2026, 2, 1), day(2026, 3, 1)}, {day(2026, 3, 1), time.Time{}},
	} {
		if got := config.NextExpiry(madePolicies(t, loaded, test.at, nil)); !got.Equal(test.next) {
			t.Errorf("at %v: got %v", test.at, got)
		}
	}
}

func TestUnchangedLimitsKeepTheirPolicy(t *testing.T) {
	at := day(2025, 12, 1)
	before := madePolicies(t, loadPolicies(t), at, nil)
	after := madePolicies(t, loadPolicies(t, "requests: 5,", "requests: 6,"), at, before)
	for _, test := range []struct {
		team, token string
		same        bool
	}{{"", "", true}, {"20000000-0000-4000-8000-000000000002", "", true}, {"", "00000000-0000-4000-8000-000000000002", true}, {"20000000-0000-4000-8000-000000000001", "", false}} {
		if same := before.For(test.team, test.token, "").Policy == after.For(test.team, test.token, "").Policy; same != test.same {
			t.Errorf("%+v: same: %v", test, same)
		}
	}
}
