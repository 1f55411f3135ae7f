package status

import (
	"fmt"
	"time"

	"google.golang.org/grpc/connectivity"

	"opsgate/backendclient"
	"opsgate/cmd/internal/gate/admin"
	"opsgate/cmd/internal/kit/duration"
	"opsgate/ratelimit"
)

// dependencyIdentity is the name of the identity service.
const dependencyIdentity = "identity"

// Dependencies returns the state of each dependency, with the reason if it is not OK. The readiness page publishes it without
// authentication, so it contains no text of a service.
//
// It implements [console.Source].
func (i *Inspector) Dependencies() map[string]admin.Dependency {
	now := i.options.Clock()
	list := make(map[string]admin.Dependency)
	breakers, unavailable, endpoints := i.options.Clients.Breakers(), i.options.Clients.UnavailableSince(), i.options.Clients.Endpoints()
	lookups := i.options.Clients.FailedLookups()
	for service, state := range i.options.Clients.States() {
		b := breakers[service]
		d := serviceState(state, b, now)
		d.Since = b.TrippedAt
		if d.Since.IsZero() {
			d.Since = unavailable[service]
		}
		d.Breaker, d.Endpoints = &b, endpoints[service]
		if f, failing := lookups[service]; failing {
			d.FailedLookup = &f
		}
		list[service] = d
	}
	for service, wrong := range i.options.Clients.WrongEndpoints() {
		list[service] = wrongService(service, list[service], wrong)
	}
	if failingFor, cachedTokensFor := i.options.Authenticator.LookupsFailing(); failingFor > 0 {
		list[dependencyIdentity] = lookupsFail(list[dependencyIdentity], failingFor, cachedTokensFor, now)
	}
	if brokenFor, err := i.options.Authenticator.ContractError(); err != nil && list[dependencyIdentity].OK {
		list[dependencyIdentity] = invalidAnswers(list[dependencyIdentity], brokenFor, now)
	}
	list[admin.DependencyRevocations] = revocations(i.options.Authenticator.DisconnectedFor(), now)
	if i.options.Redis != nil {
		list[admin.DependencyRedis] = i.options.Redis.dependency(now)
	}
	for _, c := range i.options.Overload.list {
		if c.Name != "" {
			list[c.Name] = c.dependency(now)
		}
	}
	return list
}

// serviceState returns the state of an internal service by its connection and its breaker.
func serviceState(state connectivity.State, b backendclient.BreakerStatus, now time.Time) admin.Dependency {
	states := map[connectivity.State]string{
		connectivity.Idle:             "idle",
		connectivity.Connecting:       "connecting",
		connectivity.Ready:            "ready",
		connectivity.TransientFailure: "unavailable",
		connectivity.Shutdown:         "closed",
	}
	d := admin.Dependency{State: states[state], OK: state == connectivity.Ready && b.State == backendclient.BreakerClosed}
	switch {
	case b.State == backendclient.BreakerOpen:
		d.State = "breaker open"
		d.Reason = "no " + refusedCalls(b) + " for " + duration.Rounded(now.Sub(b.Since)) +
			", the next one in " + duration.Rounded(b.HalfOpenAt.Sub(now))
	case b.State == backendclient.BreakerHalfOpen:
		d.State, d.Reason = "breaker half-open", "few "+refusedCalls(b)+" for "+duration.Rounded(now.Sub(b.Since))
	case state != connectivity.Ready:
		d.Reason = "no connection"
	}
	if cause := sanitizeCause(b.Cause); cause != "" && !d.OK {
		d.Reason += ": " + cause
	}
	return d
}

// refusedCalls returns which calls an open breaker refuses. The readiness page has no ids, so the team has no name.
func refusedCalls(b backendclient.BreakerStatus) string {
	if b.Team != "" {
		return "calls of one team"
	}
	return "calls of teams whose last one failed"
}

// wrongService is the state of a service with endpoints of another service. A gateway that never had the right one is not ready: a rollout
// stops. Else it stays ready: an error of one service must not take all gateways out of a balancer.
func wrongService(name string, d admin.Dependency, wrong backendclient.WrongEndpoints) admin.Dependency {
	d.OK, d.State, d.Since = false, "wrong service", wrong.Since
	d.WrongEndpoints, d.NotReady = &wrong, !wrong.FoundRightService
	d.Reason = fmt.Sprintf("%d of %d addresses of upstreams.%s.address answer as another service",
		len(wrong.Addresses), len(d.Endpoints), name)
	return d
}

// lookupsFail is the state of an identity service that resolves no token. Another problem takes precedence as the state. The last cached
// tokens are still accepted for cachedTokensFor.
func lookupsFail(d admin.Dependency, failingFor, cachedTokensFor time.Duration, now time.Time) admin.Dependency {
	d.TokensUntil = now.Add(cachedTokensFor)
	if d.OK {
		d.OK, d.State, d.Since = false, "lookups fail", now.Add(-failingFor)
		d.Reason = "for " + duration.Rounded(failingFor) + " no lookup of a token has succeeded: tokens that are not cached get 503"
	}
	return d
}

// invalidAnswers is the state of an identity service whose answers break the contract.
func invalidAnswers(d admin.Dependency, brokenFor time.Duration, now time.Time) admin.Dependency {
	d.OK, d.State, d.Since = false, "invalid answers", now.Add(-brokenFor)
	d.Reason = "for " + duration.Rounded(brokenFor) +
		" it has returned token ids or team ids that are not UUIDs: tokens that are not cached get 500"
	return d
}

// revocations returns the state of the revocation stream.
func revocations(disconnected time.Duration, now time.Time) admin.Dependency {
	if disconnected == 0 {
		return admin.Dependency{State: "ready", OK: true}
	}
	return admin.Dependency{
		State: "unavailable", Since: now.Add(-disconnected),
		Reason: "the stream has been disconnected for " + duration.Rounded(disconnected) + ": revocations take effect late",
	}
}

// dependency returns the state of Redis for the readiness page; in an outage, State has the mode of the limits. A gateway that denies all
// requests is not ready, so that balancers send them to gateways that reach Redis.
func (r *Redis) dependency(now time.Time) admin.Dependency {
	state := r.Limits.State()
	// In the form of a service's breaker, for the admin page.
	b := &backendclient.BreakerStatus{State: backendclient.BreakerState(state.Breaker), Cause: state.Cause}
	if b.State != backendclient.BreakerClosed {
		b.TrippedAt = state.Since
	}
	if state.Mode == ratelimit.ModeShared {
		return admin.Dependency{State: "ready", OK: true, Breaker: b}
	}
	d := admin.Dependency{
		State:  "unavailable, limits are " + string(state.Mode),
		Reason: "not in use for " + duration.Rounded(now.Sub(state.Since)), Since: state.Since, Breaker: b,
		NotReady: state.Mode == ratelimit.ModeDeny,
	}
	if cause := redisCause(state.Cause); cause != "" {
		d.Reason += ": " + cause
	}
	return d
}
