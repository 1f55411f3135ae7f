package config_test

import (
	"testing"
	"time"

	"opsgate/cmd/internal/gate/config"
)

// The version is that of what is enforced: names, owners and reasons may differ between gateways.
func TestLimitsVersionIsThatOfTheLimits(t *testing.T) {
	versionOf := func(change func(*config.RateLimit, *config.Override)) string {
		c := config.Default().RateLimit
		override := config.Override{Limits: []config.Limit{{Name: "second", Requests: 9, Per: config.Duration(time.Second)}}}
		c.Classes = config.Classes{"partner": {Limits: c.Limits, Teams: []string{"a", "b"}}}
		change(&c, &override)
		c.Tokens = config.Overrides{"token": override}
		return c.LimitsVersion()
	}
	same := versionOf(func(*config.RateLimit, *config.Override) {})
	for name, test := range map[string]struct {
		change func(*config.RateLimit, *config.Override)
		same   bool
	}{
		"nothing": {func(*config.RateLimit, *config.Override) {}, true},
		"owner":   {func(_ *config.RateLimit, o *config.Override) { o.Owner, o.Reason = "ada", "trial" }, true},
		"name":    {func(_ *config.RateLimit, o *config.Override) { o.Limits[0].Name = "burst" }, true},
		"mode":    {func(c *config.RateLimit, _ *config.Override) { c.OnStoreFailure = config.FailDeny }, true},
		"order of teams": {func(c *config.RateLimit, _ *config.Override) {
			c.Classes["partner"].Teams[0], c.Classes["partner"].Teams[1] = "b", "a"
		}, true},
		"requests":        {func(_ *config.RateLimit, o *config.Override) { o.Limits[0].Requests = 10 }, false},
		"per":             {func(_ *config.RateLimit, o *config.Override) { o.Limits[0].Per++ }, false},
		"shadow":          {func(_ *config.RateLimit, o *config.Override) { o.Limits[0].Shadow = true }, false},
		"expiry":          {func(_ *config.RateLimit, o *config.Override) { o.Expires.Time = time.Unix(1, 0) }, false},
		"default":         {func(c *config.RateLimit, _ *config.Override) { c.Limits = c.Limits[:1] }, false},
		"team of a class": {func(c *config.RateLimit, _ *config.Override) { c.Classes["partner"].Teams[0] = "c" }, false},
		"a team's own limits": {func(c *config.RateLimit, _ *config.Override) {
			c.Classes["partner"].Teams[0] = "c"
			c.Teams = config.Overrides{"a": {Limits: c.Limits}}
		}, false},
	} {
		if got := versionOf(test.change); (got == same) != test.same {
			t.Errorf("%s: %s, was %s", name, got, same)
		}
	}
}
