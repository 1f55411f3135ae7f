package wiring

import (
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"

	"opsgate/backendclient"
	"opsgate/cmd/internal/gate/admin"
	"opsgate/cmd/internal/kit/duration"
)

// dependencyIdentity is the name of the identity service.
const dependencyIdentity = "identity"

// dependencies returns the state of each dependency, with the reason if it is not OK. The readiness page publishes it without
// authentication, so it contains no text of a service.
func (p *parts) dependencies() map[string]admin.Dependency {
	now := p.clock()
	list := make(map[string]admin.Dependency)
	breakers, unreachable, endpoints := p.clients.Breakers(), p.clients.UnreachableSince(), p.clients.Endpoints()
	for service, state := range p.clients.States() {
		b := breakers[service]
		d := serviceState(state, b, now)
		if d.Since = b.TrippedAt; d.Since.IsZero() {
			d.Since = unreachable[service]
		}
		d.Breaker, d.Endpoints = &b, endpoints[service]
		list[service] = d
	}
	if brokenFor, err := p.authenticator.ContractError(); err != nil && list[dependencyIdentity].OK {
		d := invalidAnswers(brokenFor, now)
		d.Breaker, d.Endpoints = list[dependencyIdentity].Breaker, list[dependencyIdentity].Endpoints
		list[dependencyIdentity] = d
	}
	list[admin.DependencyRevocations] = revocations(p.authenticator.DisconnectedFor(), now)
	if p.limiter.shared != nil {
		list[admin.DependencyRedis] = p.limiter.shared.dependency(now)
	}
	for _, l := range p.overload.limits {
		if l.name != "" {
			list[l.name] = l.dependency(now)
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
		connectivity.TransientFailure: stateUnavailable,
		connectivity.Shutdown:         "closed",
	}
	d := admin.Dependency{State: states[state], OK: state == connectivity.Ready && b.State == backendclient.BreakerClosed}
	switch {
	case b.State == backendclient.BreakerOpen:
		d.State = "breaker open"
		d.Reason = "no calls for " + duration.Rounded(now.Sub(b.Since)) + ", the next one in " + duration.Rounded(b.ProbesAt.Sub(now))
	case b.State == backendclient.BreakerHalfOpen:
		d.State, d.Reason = "breaker half-open", "few calls for "+duration.Rounded(now.Sub(b.Since))
	case state != connectivity.Ready:
		d.Reason = "no connection"
	}
	if cause := sanitizeCause(b.Cause); cause != "" && !d.OK {
		d.Reason += ": " + cause
	}
	return d
}

// invalidAnswers is the state of an identity service whose answers break the contract.
func invalidAnswers(brokenFor time.Duration, now time.Time) admin.Dependency {
	return admin.Dependency{
		State: "invalid answers", Since: now.Add(-brokenFor),
		Reason: "for " + duration.Rounded(brokenFor) +
			" it has returned token ids or team ids that are not UUIDs: tokens that are not cached get 500",
	}
}

// revocations returns the state of the revocation stream.
func revocations(disconnected time.Duration, now time.Time) admin.Dependency {
	if disconnected == 0 {
		return admin.Dependency{State: "ready", OK: true}
	}
	return admin.Dependency{
		State: stateUnavailable, Since: now.Add(-disconnected),
		Reason: "the stream has been disconnected for " + duration.Rounded(disconnected) + ": revocations take effect late",
	}
}

const causeACL = "the ACL of Redis denies the user a command or key of the gateway"

// redisCauses maps the prefixes of error replies of Redis to reasons.
var redisCauses = []struct{ prefix, reason string }{
	{"OOM ", "Redis is out of memory (maxmemory, and its policy evicts nothing)"},
	{"NOAUTH ", "Redis requires a password, and none is configured"},
	{"WRONGPASS ", "Redis refuses the user or the password"},
	{"ERR AUTH ", "Redis has no password, and one is configured"},
	{"NOPERM ", causeACL},
	{"ERR ACL failure in script", causeACL},
	{"ERR The user executing the script can't", causeACL}, // before Redis 7.2
	{"WRONGTYPE ", "a key of the gateway has a value of another program"},
	{"READONLY ", "Redis is a read-only replica"},
	{"LOADING ", "Redis is loading its data"},
	{"MISCONF ", "Redis refuses writes because it cannot save its data"},
	{"NOREPLICAS ", "Redis refuses writes because it has too few replicas"},
	{"MASTERDOWN ", "Redis is a replica that lost its master"},
	{"CLUSTERDOWN ", "the Redis cluster is down"},
	{"BUSY ", "Redis is busy with a script"},
	{"ERR max number of clients reached", "Redis has too many clients (maxclients)"},
}

// redisCause returns the reason of a failed call to Redis: by its error reply, or like sanitizeCause.
func redisCause(cause string) string {
	for _, known := range redisCauses {
		if strings.HasPrefix(cause, known.prefix) || strings.Contains(cause, ": "+known.prefix) {
			return known.reason
		}
	}
	return sanitizeCause(cause)
}

// sanitizeCause reduces the cause of a failed call to its gRPC code and a known network error. Other text of the cause is removed.
func sanitizeCause(cause string) string {
	var parts []string
	code, _, _ := strings.Cut(cause, ":")
	for c := codes.Canceled; c <= codes.Unauthenticated; c++ {
		if c.String() == code {
			parts = append(parts, code)
		}
	}
	for _, known := range []string{
		"connection refused", "connection reset", "no such host", "no route to host", "network is unreachable", "broken pipe",
		"i/o timeout", "deadline exceeded", "failed to verify certificate", "handshake failed", "unexpected EOF",
	} {
		if strings.Contains(cause, known) {
			return strings.Join(append(parts, known), ": ")
		}
	}
	return strings.Join(parts, ": ")
}
