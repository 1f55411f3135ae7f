package gateway

import (
	"errors"
	"strings"

	"opsgate/authn"
	"opsgate/backendclient"
	"opsgate/gateway/decode"
)

// A Cause is the stable reason of an error response in logs, metrics and traces: "scope",
// "breaker:fleet". Clients do not get it. docs/operate/errors.md lists all causes.
type Cause string

// Causes without the name of a service or limit.
const (
	causeOverload           Cause = "overload"
	causeTokenMissing       Cause = "token:missing"
	causeTokenAmbiguous     Cause = "token:ambiguous"
	causeTokenMalformed     Cause = "token:malformed"
	causeTokenNotFound      Cause = "token:unknown"
	causeTokenRevoked       Cause = "token:revoked"
	causeTokenExpired       Cause = "token:expired"
	causeIdentityBusy       Cause = "busy:identity"
	causeLimiterUnavailable Cause = "unavailable:limiter"
	causeRoute              Cause = "route"
	causeMethod             Cause = "method"
	causePlan               Cause = "plan"
	causeScope              Cause = "scope"
	causePath               Cause = "input:path"
	causeQuery              Cause = "input:query"
	causeBody               Cause = "input:body"
	causeIdempotencyKey     Cause = "input:key"
	causeMediaType          Cause = "input:media-type"
	causeSize               Cause = "input:size"
	causeBodyTimeout        Cause = "input:timeout"
	causeHeader             Cause = "input:header"
	causeClientGone         Cause = "client-gone"
	causePanic              Cause = "panic"
	causeInternal           Cause = "internal"
)

// A failureKind is the prefix of a cause that has the name of a service.
type failureKind string

// The kinds of failed calls.
const (
	failureInvalid       failureKind = "invalid"
	failureNotFound      failureKind = "not-found"
	failureDenied        failureKind = "denied"
	failureRefused       failureKind = "refused"
	failureConflict      failureKind = "conflict"
	failureThrottled     failureKind = "throttled"
	failureUnimplemented failureKind = "unimplemented"
	failureUnavailable   failureKind = "unavailable"
	failureBreaker       failureKind = "breaker"
	failureOverload      failureKind = "overload"
	failureTeamOverload  failureKind = "team-overload"
	failureTimeout       failureKind = "timeout"
	failureInternal      failureKind = "failed"
	failureContract      failureKind = "contract"
	failureTooLarge      failureKind = "too-large"
)

func (k failureKind) cause(service string) Cause { return Cause(string(k) + ":" + service) }

// causeLimit is the metric label of all causes with the name of a limit, because thousands of names
// for each route would be too many series. opsgate_rate_limit_decisions_total has the names.
const causeLimit Cause = "limit"

func limitCause(name string) Cause { return causeLimit + Cause(":"+name) }

// label returns the cause as a metric label, one of a closed set.
func (c Cause) label() Cause {
	if strings.HasPrefix(string(c), string(causeLimit)+":") {
		return causeLimit
	}
	return c
}

func causeOfInput(err *decode.Error) Cause {
	switch err.Part {
	case decode.PartQuery:
		return causeQuery
	case decode.PartIdempotencyKey:
		return causeIdempotencyKey
	}
	return causeBody
}

// causeOfToken returns the cause for a token that the authenticator rejects with err.
func causeOfToken(err error) Cause {
	switch {
	case errors.Is(err, authn.ErrMalformed):
		return causeTokenMalformed
	case errors.Is(err, authn.ErrRevoked):
		return causeTokenRevoked
	case errors.Is(err, authn.ErrExpired):
		return causeTokenExpired
	}
	return causeTokenNotFound
}

func causeOfCredential(authorization []string) Cause {
	switch {
	case strings.Trim(strings.Join(authorization, ""), " \t") == "":
		return causeTokenMissing
	case len(authorization) > 1:
		return causeTokenAmbiguous
	}
	return causeTokenMalformed
}

// causeOfIdentity returns the cause of the 503 for a token that the identity service could not
// resolve.
func causeOfIdentity(err error) Cause {
	if errors.Is(err, authn.ErrBusy) {
		return causeIdentityBusy
	}
	call, isCall := errors.AsType[*backendclient.Error](err)
	if !isCall {
		return failureInternal.cause("identity")
	}
	switch kind, _ := callFailure(call, &Route{}); kind { // the kinds below do not depend on the route
	case failureUnavailable, failureBreaker, failureOverload, failureTimeout, failureRefused:
		return kind.cause(call.Service)
	}
	return failureInternal.cause(call.Service)
}
