package wiring

import (
	"errors"
	"net/netip"
	"time"

	"opsgate/authn"
	"opsgate/backendclient"
	"opsgate/cmd/internal/gate/config"
	"opsgate/cmd/internal/gate/policies"
	"opsgate/gateway"
	"opsgate/ratelimit"
)

// A snapshot is a configuration with the policies and the gateway built from it. It never changes: a request starts and ends under the same
// snapshot.
type snapshot struct {
	loaded  config.Loaded
	files   []string // read for the configuration
	version string
	since   time.Time // when the version became active

	policies *ratelimit.Policies
	gateway  *gateway.Gateway

	upstreams *backendclient.Change // is applied with the snapshot; nil for the first
}

// snapshot builds the snapshot of a configuration. It returns an error if a setting of any part is invalid, and changes nothing.
func (p *parts) snapshot(loaded config.Loaded, now time.Time) (_ *snapshot, err error) {
	s := &snapshot{loaded: loaded, files: loaded.Files(), version: loaded.Version(), since: now}
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
	if err := errors.Join(callSettings(loaded.Config).Validate(), tokenSettings(loaded.Config).Validate()); err != nil {
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
		PublicURL:       loaded.PublicURL,
		TokenPrefix:     tokenPrefix(loaded.Config),
		LogFailuresOnly: !loaded.Log.Access,
		LogSkipFraction: 1 - loaded.Log.AccessSample.Fraction(),
		Capacity:        p.capacity,
		Decisions:       p.decisions,
		Tracer:          newTracer(p.traces, loaded.Config),
		Logger:          p.logger,
		Lines:           p.logLimits.requests,
		Metrics:         p.metrics,
	})
	if err != nil || before == nil {
		return s, err
	}
	if s.upstreams, err = p.clients.Prepare(upstreams(loaded.Upstreams)); err != nil { // last, so that no other step has to discard it
		return nil, upstreamProblems(loaded, err)
	}
	return s, nil
}

// upstreamProblems returns the problem of an upstream that cannot be changed.
func upstreamProblems(loaded config.Loaded, err error) config.Problems {
	key, text := "upstreams", err.Error()
	if refused, is := errors.AsType[*backendclient.ChangeError](err); is {
		key, text = key+"."+refused.Service+".address", refused.Err.Error()
	}
	return config.Problems{loaded.Problem(key, text)}
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

// requestsPerLookUp is the number of requests in flight for which one look-up of an unknown token is allowed. At most half of these
// requests can wait for the look-up.
const requestsPerLookUp = 2 * authn.WaitersPerLookup

// tokenSettings limits look-ups of unknown tokens to half of the calls in flight, and the requests that wait for them to half of
// the requests in flight.
func tokenSettings(c config.Config) authn.Settings {
	return authn.Settings{
		FreshFor:      time.Duration(c.Authn.FreshFor),
		StaleFor:      time.Duration(c.Authn.StaleFor),
		LookupTimeout: time.Duration(c.Authn.LookUpTimeout),
		MaxLookups:    MaxLookUps(c),
	}
}

// MaxLookUps returns the effective maximum of concurrent look-ups of unknown tokens.
func MaxLookUps(c config.Config) int {
	return min(c.Authn.MaxLookUps, max(1, c.UpstreamCalls.MaxInFlight/2), max(1, c.HTTP.MaxInFlight/requestsPerLookUp))
}

func prefixes(networks []config.Network) []netip.Prefix {
	list := make([]netip.Prefix, len(networks))
	for i, n := range networks {
		list[i] = n.Prefix
	}
	return list
}
