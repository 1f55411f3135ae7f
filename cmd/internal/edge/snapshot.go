package edge

import (
	"errors"
	"net/netip"
	"time"

	"opsgate/authn"
	"opsgate/backendclient"
	"opsgate/cmd/internal/config"
	"opsgate/cmd/internal/policies"
	"opsgate/gateway"
	"opsgate/ratelimit"
)

// A snapshot is a configuration and all that was made of it. It never changes: a request that begins under one ends under it.
type snapshot struct {
	loaded  config.Loaded
	files   []string // that it was made of
	version string
	since   time.Time // the version has been in force

	policies *ratelimit.Policies
	calls    backendclient.Settings
	tokens   authn.Settings
	gateway  *gateway.Gateway
}

// snapshot makes all that a configuration asks for at a time. It changes nothing that requests or other snapshots see.
func (p *parts) snapshot(loaded config.Loaded, now time.Time) (_ *snapshot, err error) {
	s := &snapshot{
		loaded: loaded, files: loaded.Files(), version: loaded.Version(), since: now,
		calls: callSettings(loaded.Config), tokens: tokenSettings(loaded.Config),
	}
	var before *ratelimit.Policies
	if last := p.current.Load(); last != nil {
		before = last.policies
		if s.version == last.version {
			s.since = last.since
		}
	}
	if s.policies, err = policies.New(loaded, now, before); err != nil {
		return nil, err
	}
	if err := errors.Join(s.calls.Validate(), s.tokens.Validate()); err != nil {
		return nil, err
	}
	s.gateway, err = gateway.New(gateway.Options{
		Fleet:           p.clients.Fleet,
		Monitoring:      p.clients.Monitoring,
		Incident:        p.clients.Incident,
		Audit:           p.clients.Audit,
		Authenticator:   p.authenticator,
		Limiter:         p.limiter,
		Policies:        s.policies,
		Refunds:         p.refunds,
		RetrySlots:      p.retrySlots,
		Timeout:         time.Duration(loaded.HTTP.RequestTimeout),
		Timeouts:        timeouts(loaded.Routes),
		BodyTimeout:     time.Duration(loaded.HTTP.BodyTimeout),
		MaxBodyBytes:    int64(loaded.HTTP.MaxBodyBytes),
		MaxHeaderBytes:  int64(loaded.HTTP.MaxHeaderBytes),
		TrustedProxies:  prefixes(loaded.TrustedProxies),
		TLS:             loaded.TLS.CertFile != "",
		TokenPrefix:     liveTokens(loaded.Config),
		LogFailuresOnly: !loaded.Log.Access,
		LogSkipFraction: 1 - loaded.Log.AccessSample.Fraction(),
		Capacity:        p.capacity,
		Decisions:       p.decisions,
		Tracer:          newTracer(p.traces, loaded.Config),
		Logger:          p.logger,
		Lines:           p.lines.requests,
		Metrics:         p.metrics,
	})
	return s, err
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

func timeouts(routes config.Routes) map[string]time.Duration {
	byRoute := make(map[string]time.Duration, len(routes))
	for id, route := range routes {
		byRoute[id] = time.Duration(route.Timeout)
	}
	return byRoute
}

// requestsPerLookUp is how many requests the gateway must be able to have in flight for each look-up of an unknown token: those that wait
// for look-ups may hold no more than half of them.
const requestsPerLookUp = 2 * authn.WaitersPerLookUp

// tokenSettings leaves half of the calls that may be under way to tokens that are known, however many others come, and half of the
// requests in flight to those that do not wait for a look-up of an unknown token.
func tokenSettings(c config.Config) authn.Settings {
	return authn.Settings{
		FreshFor:      time.Duration(c.Authn.FreshFor),
		StaleFor:      time.Duration(c.Authn.StaleFor),
		LookUpTimeout: time.Duration(c.Authn.LookUpTimeout),
		MaxLookUps:    min(c.Authn.MaxLookUps, max(1, c.UpstreamCalls.MaxInFlight/2), max(1, c.HTTP.MaxInFlight/requestsPerLookUp)),
	}
}

func prefixes(networks []config.Network) []netip.Prefix {
	list := make([]netip.Prefix, len(networks))
	for i, n := range networks {
		list[i] = n.Prefix
	}
	return list
}
