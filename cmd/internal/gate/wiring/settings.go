package wiring

import (
	"log/slog"
	"time"

	"opsgate/authn"
	"opsgate/backendclient"
	"opsgate/backendclient/breaker"
	"opsgate/cmd/internal/gate/admin"
	"opsgate/cmd/internal/gate/config"
	"opsgate/cmd/internal/gate/httpserver"
	"opsgate/gateway"
)

// reloadableParts are the parts that live as long as the process and whose settings change with the
// configuration.
type reloadableParts struct {
	logger       *slog.Logger
	level        *slog.LevelVar
	dependencies *dependencies
	loadLimit    *gateway.LoadLimit
	public       *httpserver.Server
	pages        *admin.Admin
}

// apply applies a configuration. It cannot fail, because a snapshot was built from the
// configuration, which is therefore valid.
func (p *reloadableParts) apply(c config.Loaded) {
	p.dependencies.clients.Apply(callSettings(c.Config))
	p.dependencies.authenticator.Apply(tokenSettings(c.Config))
	p.loadLimit.SetLimit(c.HTTP.MaxInFlight)
	p.public.SetMaxConnections(c.MaxConnections())
	p.setAdminTokens(c.Admin)
	if limits := p.dependencies.limiter.inRedis; limits != nil {
		limits.setConfig(c.RateLimit)
	}
	p.level.Set(c.Log.Level.Slog())
}

// setAdminTokens applies the tokens of the admin listener, and logs which tokens changed.
func (p *reloadableParts) setAdminTokens(c config.Admin) {
	operators, metrics := c.Token.Reveal(), c.MetricsToken.Reveal()
	operatorsChanged, metricsChanged := p.pages.SetTokens(operators, metrics)
	switch {
	case operatorsChanged && operators == "":
		p.logger.Warn("the admin token was removed: the admin listener requires none")
	case operatorsChanged:
		p.logger.Info("the admin token changed: any previous one is refused")
	}
	switch {
	case metricsChanged && metrics == "":
		p.logger.Info("the token for metrics was removed: it is refused")
	case metricsChanged:
		p.logger.Info("the token for metrics changed: any previous one is refused")
	}
}

func callSettings(c config.Config) backendclient.Settings {
	return backendclient.Settings{
		MaxResponseBytes: int(c.UpstreamCalls.MaxResponseBytes),
		MaxInFlight:      c.UpstreamCalls.MaxInFlight,
		Retries: backendclient.RetrySettings{
			Max:    c.UpstreamCalls.Retries.Max,
			Budget: c.UpstreamCalls.Retries.Budget.Fraction(),
		},
		Breaker: breaker.Settings{
			Window:      c.BreakerWindow(),
			MinRequests: c.UpstreamCalls.Breaker.MinRequests,
			FailureRate: c.UpstreamCalls.Breaker.FailureRate.Fraction(),
			OpenFor:     time.Duration(c.UpstreamCalls.Breaker.OpenFor),
		},
	}
}

// requestsPerLookup is the number of in-flight slots for each concurrent lookup of an unknown token.
// At most WaitersPerLookup requests wait for a lookup. With twice as many slots for each, waiting
// requests hold at most half of all slots.
const requestsPerLookup = 2 * authn.WaitersPerLookup

// tokenSettings returns the settings of the authenticator.
func tokenSettings(c config.Config) authn.Settings {
	return authn.Settings{
		FreshFor:      time.Duration(c.Authn.FreshFor),
		StaleFor:      time.Duration(c.Authn.StaleFor),
		LookupTimeout: time.Duration(c.Authn.LookupTimeout),
		MaxLookups:    maxLookups(c),
	}
}

// maxLookups returns the effective maximum of concurrent lookups of unknown tokens: the configured
// one, but at most half of upstream_calls.max_in_flight, and so few that waiting requests hold at
// most half of http.max_in_flight.
func maxLookups(c config.Config) int {
	return min(c.Authn.MaxLookups, max(1, c.UpstreamCalls.MaxInFlight/2), max(1, c.HTTP.MaxInFlight/requestsPerLookup))
}
