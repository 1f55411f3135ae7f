package wiring

import (
	"log/slog"
	"time"

	"opsgate/authn"
	"opsgate/backendclient"
	"opsgate/cmd/internal/gate/admin"
	"opsgate/cmd/internal/gate/config"
	"opsgate/cmd/internal/gate/httpserver"
	"opsgate/gateway"
)

// settings are the parts that live as long as the process and whose settings change with the configuration.
type settings struct {
	logger        *slog.Logger
	level         *slog.LevelVar // nil if it does not change
	clients       *backendclient.Clients
	authenticator *authn.Authenticator
	shared        *sharedLimits // nil if limits are counted in memory
	capacity      *gateway.LoadLimit
	public        *httpserver.Server
	pages         *admin.Admin
}

func newSettings(c common, d *dependencies, b *builder, public *httpserver.Server, pages *admin.Admin) *settings {
	return &settings{
		logger: c.Logger, level: c.LogLevel, clients: d.clients, authenticator: d.authenticator, shared: d.limiter.shared, capacity: b.capacity,
		public: public, pages: pages,
	}
}

// apply applies a configuration of which a snapshot was built, so it is valid. It cannot fail.
func (s *settings) apply(c config.Loaded) {
	s.clients.Apply(callSettings(c.Config))
	s.authenticator.Apply(tokenSettings(c.Config))
	s.capacity.SetLimit(c.HTTP.MaxInFlight)
	s.public.SetMaxConnections(c.MaxConnections())
	s.setAdminTokens(c.Admin)
	if s.shared != nil {
		s.shared.setConfig(c.RateLimit)
	}
	if s.level != nil {
		s.level.Set(c.Log.Level.Slog())
	}
}

// setAdminTokens applies the tokens of the admin listener, and logs which of them changed.
func (s *settings) setAdminTokens(c config.Admin) {
	operators, metrics := c.Token.Reveal(), c.MetricsToken.Reveal()
	changed, metricsChanged := s.pages.SetTokens(operators, metrics)
	switch {
	case changed && operators == "":
		s.logger.Warn("the admin token was removed: the admin listener requires none")
	case changed:
		s.logger.Info("the admin token changed: the previous one is refused")
	}
	switch {
	case metricsChanged && metrics == "":
		s.logger.Info("the token for metrics was removed: it is refused")
	case metricsChanged:
		s.logger.Info("the token for metrics changed: the previous one is refused")
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
		Breaker: backendclient.BreakerSettings{
			Window:      c.BreakerWindow(),
			MinRequests: c.UpstreamCalls.Breaker.MinRequests,
			FailureRate: c.UpstreamCalls.Breaker.FailureRate.Fraction(),
			OpenFor:     time.Duration(c.UpstreamCalls.Breaker.OpenFor),
		},
	}
}

// requestsPerLookup is the number of requests in flight for which one lookup of an unknown token is allowed. At most half of these
// requests can wait for the lookup.
const requestsPerLookup = 2 * authn.WaitersPerLookup

// tokenSettings limits lookups of unknown tokens to half of the calls in flight, and the requests that wait for them to half of
// the requests in flight.
func tokenSettings(c config.Config) authn.Settings {
	return authn.Settings{
		FreshFor:      time.Duration(c.Authn.FreshFor),
		StaleFor:      time.Duration(c.Authn.StaleFor),
		LookupTimeout: time.Duration(c.Authn.LookUpTimeout),
		MaxLookups:    MaxLookUps(c),
	}
}

// MaxLookUps returns the effective maximum of concurrent lookups of unknown tokens.
func MaxLookUps(c config.Config) int {
	return min(c.Authn.MaxLookUps, max(1, c.UpstreamCalls.MaxInFlight/2), max(1, c.HTTP.MaxInFlight/requestsPerLookup))
}
