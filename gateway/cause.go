package gateway

import (
	"errors"
	"strings"

	"google.golang.org/grpc/codes"

	"opsgate/authn"
	"opsgate/backendclient"
)

// A Cause says in a word or two why a request was refused or failed: "scope", "breaker:fleet". It is for logs, metrics and traces,
// whose readers rely on it, and never for clients. docs/errors.md lists all of them.
type Cause string

// Causes that are the same wherever they arise.
const (
	causeOverload       Cause = "overload"
	causeTokenMissing   Cause = "token:missing"
	causeTokenAmbiguous Cause = "token:ambiguous"
	causeTokenMalformed Cause = "token:malformed"
	causeTokenUnknown   Cause = "token:unknown"
	causeTokenRevoked   Cause = "token:revoked"
	causeIdentityBusy   Cause = "busy:identity"
	causeLimiterAway    Cause = "unavailable:limiter"
	causeRoute          Cause = "route"
	causeMethod         Cause = "method"
	causePlan           Cause = "plan"
	causeScope          Cause = "scope"
	causePath           Cause = "input:path"
	causeQuery          Cause = "input:query"
	causeBody           Cause = "input:body"
	causeKey            Cause = "input:key"
	causeMediaType      Cause = "input:media-type"
	causeSize           Cause = "input:size"
	causeBodyTimeout    Cause = "input:timeout"
	causeHeader         Cause = "input:header"
	causeClientGone     Cause = "client-gone"
	causeTimeout        Cause = "timeout"
	causePanic          Cause = "panic"
	causeInternal       Cause = "internal"
)

// A trouble is the first word of a cause that has the name of a service for its second.
type trouble string

// What there is to say of a service. For identity, all of these that are not an answer come to 503, and a broken contract to 500.
const (
	troubleInvalid       trouble = "invalid"
	troubleNotFound      trouble = "not-found"
	troubleDenied        trouble = "denied"
	troubleConflict      trouble = "conflict"
	troubleThrottled     trouble = "throttled"
	troubleUnimplemented trouble = "unimplemented"
	troubleUnavailable   trouble = "unavailable"
	troubleBreaker       trouble = "breaker"
	troubleOverload      trouble = "overload"
	troubleTimeout       trouble = "timeout"
	troubleFailed        trouble = "failed"
	troubleContract      trouble = "contract"
)

func (t trouble) of(service string) Cause { return Cause(string(t) + ":" + service) }

// causeLimit is what metrics say of causes with the name of a limit. The names are of a configuration's making, and there may be a
// thousand overrides with limits of their own; opsgate_rate_limit_decisions_total counts by them.
const causeLimit Cause = "limit"

func limitCause(name string) Cause { return causeLimit + Cause(":"+name) }

// counted is the cause as metrics have it, one of a closed set.
func (c Cause) counted() Cause {
	if strings.HasPrefix(string(c), string(causeLimit)+":") {
		return causeLimit
	}
	return c
}

// causeOfToken says what is wrong with a token that stands for nobody.
func causeOfToken(err error) Cause {
	switch {
	case errors.Is(err, authn.ErrMalformed):
		return causeTokenMalformed
	case errors.Is(err, authn.ErrRevoked):
		return causeTokenRevoked
	}
	return causeTokenUnknown
}

// causeOfCredential says what is wrong with a credential in which there is no token.
func causeOfCredential(authorization []string) Cause {
	switch {
	case strings.Trim(strings.Join(authorization, ""), " \t") == "":
		return causeTokenMissing
	case len(authorization) > 1:
		return causeTokenAmbiguous
	}
	return causeTokenMalformed
}

// causeOfIdentity says why the identity service could not tell whom a token stands for.
func causeOfIdentity(err error) Cause {
	if errors.Is(err, authn.ErrBusy) {
		return causeIdentityBusy
	}
	call, isCall := errors.AsType[*backendclient.Error](err)
	if !isCall {
		return troubleFailed.of("identity")
	}
	switch trouble := troubleOf(call); trouble {
	case troubleUnavailable, troubleBreaker, troubleOverload, troubleTimeout:
		return trouble.of(call.Service)
	}
	return troubleFailed.of(call.Service)
}

func causeOfCall(e *backendclient.Error) Cause { return troubleOf(e).of(e.Service) }

// troubleOf says what an internal service's code comes to. It tells more than problemOfCall does, of the same codes.
func troubleOf(e *backendclient.Error) trouble {
	switch e.Code {
	case codes.InvalidArgument, codes.OutOfRange, codes.FailedPrecondition:
		return troubleInvalid
	case codes.NotFound:
		return troubleNotFound
	case codes.PermissionDenied:
		return troubleDenied
	case codes.AlreadyExists, codes.Aborted:
		return troubleConflict
	case codes.ResourceExhausted:
		return troubleThrottled
	case codes.Unimplemented:
		return troubleUnimplemented
	case codes.DeadlineExceeded:
		return troubleTimeout
	case codes.Unavailable:
		switch e.Reason {
		case backendclient.ReasonBreakerOpen:
			return troubleBreaker
		case backendclient.ReasonOverloaded:
			return troubleOverload
		}
		return troubleUnavailable
	case codes.OK, codes.Canceled, codes.Unknown, codes.Internal, codes.DataLoss, codes.Unauthenticated:
		return troubleFailed
	}
	return troubleFailed
}
