package authn

import (
	"errors"
	"fmt"
	"strings"

	identityv1 "opsgate/proto/ops/identity/v1"
)

// A Principal is whom a token stands for. It is shared between requests and must not be modified.
type Principal struct {
	// TokenID is the token's id, a UUID in lower case: what limits are counted by and what logs show.
	TokenID string
	// TeamID is the one team that the token acts for, a UUID in lower case.
	TeamID string
	// Scopes is what the token may do.
	Scopes Scopes
	// AIPlan tells whether the team has the plan that includes the public API.
	AIPlan bool
}

// newPrincipal returns the principal of an answer, or an [ErrContract]. Services refuse a team id that is not a UUID, and each request
// would fail as if its client had sent it. The error has nothing of the answer: it may be in a log.
func newPrincipal(r *identityv1.ResolveTokenResponse) (*Principal, error) {
	tokenID, ok := CanonicalUUID(r.GetTokenId())
	if !ok {
		return nil, fmt.Errorf("%w: the token id of an answer is not a UUID", ErrContract)
	}
	teamID, ok := CanonicalUUID(r.GetTeamId())
	if !ok {
		return nil, fmt.Errorf("%w: the team id of an answer is not a UUID", ErrContract)
	}
	scopes := make([]Scope, len(r.GetScopes()))
	for i, s := range r.GetScopes() {
		scopes[i] = Scope(s)
	}
	return &Principal{
		TokenID: tokenID,
		TeamID:  teamID,
		Scopes:  NewScopes(scopes...),
		AIPlan:  r.GetPlan() == identityv1.Plan_PLAN_AI,
	}, nil
}

// CanonicalUUID returns a UUID of the form 8-4-4-4-12 in lower case, and whether s is one. Upper case is accepted, as it names the same.
func CanonicalUUID(s string) (string, bool) {
	if len(s) != 36 {
		return "", false
	}
	for i := range len(s) {
		switch c := s[i]; {
		case i == 8 || i == 13 || i == 18 || i == 23:
			if c != '-' {
				return "", false
			}
		case '0' <= c && c <= '9', 'a' <= c && c <= 'f', 'A' <= c && c <= 'F':
		default:
			return "", false
		}
	}
	return strings.ToLower(s), true
}

var (
	// ErrInvalidToken says that the token opens nothing. The errors that [Authenticator.Authenticate] returns wrap it with
	// the reason, one of the three below, which is for logs: a client is told the same for each (specification, part 7).
	ErrInvalidToken = errors.New("invalid token")
	// ErrMalformed is an [ErrInvalidToken]: it is not of the format, so nobody was asked.
	ErrMalformed = fmt.Errorf("%w: malformed", ErrInvalidToken)
	// ErrUnknown is an [ErrInvalidToken]: the identity service knows no such token.
	ErrUnknown = fmt.Errorf("%w: unknown", ErrInvalidToken)
	// ErrRevoked is an [ErrInvalidToken]: it has been revoked. The errors that wrap it are of type [RevokedError].
	ErrRevoked = fmt.Errorf("%w: revoked", ErrInvalidToken)
	// ErrUnavailable says that the identity service could not tell, and that nothing recent enough is remembered of the
	// token. It is returned wrapped with the cause, which may be a deadline of the look-up's own: test for ErrUnavailable
	// before testing for [context.DeadlineExceeded].
	ErrUnavailable = errors.New("identity service unavailable")
	// ErrContract says that the identity service answered, with something that the contract does not have, and that nothing recent
	// enough is cached of the token. It is a fault of that service, and says nothing of the token.
	ErrContract = errors.New("identity service breaks the contract")
	// ErrBusy is an [ErrUnavailable]: the token is unknown here, and too many requests wait for look-ups of unknown tokens, or its turn
	// did not come in time.
	ErrBusy = fmt.Errorf("%w: too many unknown tokens at once", ErrUnavailable)
)

// A RevokedError is the [ErrRevoked] of a token whose ids are known, for logs. A client is told nothing of it.
type RevokedError struct {
	// TokenID is the id of the token and TeamID that of its team, UUIDs in lower case; "" where they are not known.
	TokenID, TeamID string
}

// Error returns the text of [ErrRevoked].
func (*RevokedError) Error() string { return ErrRevoked.Error() }

// Unwrap returns [ErrRevoked].
func (*RevokedError) Unwrap() error { return ErrRevoked }
