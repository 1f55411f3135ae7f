package edge

import (
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"

	"opsgate/backendclient"
	"opsgate/cmd/internal/admin"
)

// dependencyIdentity is the name of the identity service.
const dependencyIdentity = "identity"

// dependencies says in words how the things stand that the gateway needs, and why one is not as it should be. Anybody may read it who
// reaches the admin listener, so it has no words of others: a service's may hold anything.
func (p *parts) dependencies() map[string]admin.Dependency {
	now := p.clock()
	list := make(map[string]admin.Dependency)
	breakers, lost := p.clients.Breakers(), p.clients.UnreachableSince()
	for service, state := range p.clients.States() {
		b := breakers[service]
		d := serviceState(state, b, now)
		if d.Since = b.TrippedAt; d.Since.IsZero() {
			d.Since = lost[service]
		}
		d.Breaker = &b
		list[service] = d
	}
	if lasts, breach := p.authenticator.ContractError(); breach != nil && list[dependencyIdentity].OK {
		d := brokenContract(lasts, now)
		d.Breaker = list[dependencyIdentity].Breaker
		list[dependencyIdentity] = d
	}
	list[admin.DependencyRevocations] = revocations(p.authenticator.DisconnectedFor(), now)
	if p.shared != nil {
		list[admin.DependencyRedis] = p.shared.dependency(now)
	}
	for _, l := range p.overload.limits {
		list[l.name] = l.dependency(now)
	}
	return list
}

// serviceState says how an internal service stands by its connection and its breaker.
func serviceState(state connectivity.State, b backendclient.BreakerStatus, now time.Time) admin.Dependency {
	words := map[connectivity.State]string{
		connectivity.Idle:             "idle",
		connectivity.Connecting:       "connecting",
		connectivity.Ready:            "ready",
		connectivity.TransientFailure: "unavailable",
		connectivity.Shutdown:         "closed",
	}
	d := admin.Dependency{State: words[state], OK: state == connectivity.Ready && b.State == backendclient.BreakerClosed}
	switch {
	case b.State == backendclient.BreakerOpen:
		d.State, d.Reason = "breaker open", "no calls are made for "+lasting(now, b.Since)+", the next in "+lasting(b.ProbesAt, now)
	case b.State == backendclient.BreakerHalfOpen:
		d.State, d.Reason = "breaker half-open", "a few calls are made for "+lasting(now, b.Since)
	case state != connectivity.Ready:
		d.Reason = "no connection"
	}
	if cause := inOurWords(b.Cause); cause != "" && !d.OK {
		d.Reason += ": " + cause
	}
	return d
}

// brokenContract says that the identity service is there and its answers are of no use. It has nothing of an answer.
func brokenContract(lasts time.Duration, now time.Time) admin.Dependency {
	return admin.Dependency{
		State: "invalid answers", Since: now.Add(-lasts),
		Reason: "for " + lasts.Round(time.Second).String() +
			" a token id or a team id that it answers has been no UUID: tokens that are not cached get 500",
	}
}

// revocations says whether revocations of tokens are heard of.
func revocations(away time.Duration, now time.Time) admin.Dependency {
	if away == 0 {
		return admin.Dependency{State: "ready", OK: true}
	}
	return admin.Dependency{
		State: "unavailable", Since: now.Add(-away),
		Reason: "the stream has been away for " + away.Round(time.Second).String() + ": revoked tokens are noticed late",
	}
}

// lasting says the time from one moment to a later one in seconds.
func lasting(later, earlier time.Time) string {
	return max(0, later.Sub(earlier)).Round(time.Second).String()
}

// redisCauses are errors by which Redis refuses what it is asked, by what they begin with, in our words.
var redisCauses = []struct{ prefix, words string }{
	{"OOM ", "Redis is out of memory (maxmemory, and its policy evicts nothing)"},
	{"NOAUTH ", "Redis asks for a password, and none is configured"},
	{"WRONGPASS ", "Redis refuses the user or the password"},
	{"ERR AUTH ", "Redis has no password, and one is configured"},
	{"NOPERM ", "Redis' ACL does not permit the user what the gateway does"},
	{"READONLY ", "Redis is a read-only replica"},
	{"LOADING ", "Redis is loading its data"},
	{"MISCONF ", "Redis refuses writes, as it cannot save its data"},
	{"NOREPLICAS ", "Redis refuses writes, as it has too few replicas"},
	{"MASTERDOWN ", "Redis is a replica that lost its master"},
	{"CLUSTERDOWN ", "the cluster of Redis is down"},
	{"BUSY ", "Redis is busy with a script"},
	{"ERR max number of clients reached", "Redis has too many clients (maxclients)"},
}

// redisCause says why a call to Redis failed: by what Redis refuses, or as inOurWords does.
func redisCause(cause string) string {
	for _, known := range redisCauses {
		if strings.HasPrefix(cause, known.prefix) || strings.Contains(cause, ": "+known.prefix) {
			return known.words
		}
	}
	return inOurWords(cause)
}

// inOurWords says why a call failed: by its code, and by what in the cause is of the network and known. It repeats nothing else.
func inOurWords(cause string) string {
	var words []string
	code, _, _ := strings.Cut(cause, ":")
	for c := codes.Canceled; c <= codes.Unauthenticated; c++ {
		if c.String() == code {
			words = append(words, code)
		}
	}
	for _, known := range []string{
		"connection refused", "connection reset", "no such host", "no route to host", "network is unreachable", "broken pipe",
		"i/o timeout", "deadline exceeded", "failed to verify certificate", "handshake failed", "unexpected EOF",
	} {
		if strings.Contains(cause, known) {
			return strings.Join(append(words, known), ": ")
		}
	}
	return strings.Join(words, ": ")
}
