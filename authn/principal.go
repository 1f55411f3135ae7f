package authn

import (
	"errors"
	"fmt"

	identityv1 "opsgate/proto/ops/identity/v1"
)

// A Principal is whom a token stands for. It is shared between requests and must not be modified.
type Principal struct {
	// TokenID is the token's id (a UUID): what limits are counted by and what logs show.
	TokenID string
	// TeamID is the one team that the token acts for (a UUID).
	TeamID string
	// Scopes is what the token may do.
	Scopes Scopes
	// AIPlan tells whether the team has the plan that includes the public API.
	AIPlan bool
}

// newPrincipal takes the identity service's word. An answer without the ids that the contract requires is no answer: a
// principal without a team must never come to be.
func newPrincipal(r *identityv1.ResolveTokenResponse) (*Principal, error) {
	if r.GetTokenId() == "" || r.GetTeamId() == "" {
		return nil, errors.New("the identity service answered without a token id or a team id")
	}
	scopes := make([]Scope, len(r.GetScopes()))
	for i, s := range r.GetScopes() {
		scopes[i] = Scope(s)
	}
	return &Principal{
		TokenID: r.GetTokenId(),
		TeamID:  r.GetTeamId(),
		Scopes:  NewScopes(scopes...),
		AIPlan:  r.GetPlan() == identityv1.Plan_PLAN_AI,
	}, nil
}

var (
	// ErrInvalidToken says that the token opens nothing. The errors that [Authenticator.Authenticate] returns wrap it with
	// the reason, one of the three below, which is for logs: a client is told the same for each (specification, part 7).
	ErrInvalidToken = errors.New("invalid token")
	// ErrMalformed is an [ErrInvalidToken]: it is not of the format, so nobody was asked.
	ErrMalformed = fmt.Errorf("%w: malformed", ErrInvalidToken)
	// ErrUnknown is an [ErrInvalidToken]: the identity service knows no such token.
	ErrUnknown = fmt.Errorf("%w: unknown", ErrInvalidToken)
	// ErrRevoked is an [ErrInvalidToken]: it has been revoked.
	ErrRevoked = fmt.Errorf("%w: revoked", ErrInvalidToken)
	// ErrUnavailable says that the identity service could not tell, and that nothing recent enough is remembered of the
	// token. It is returned wrapped with the cause, which may be a deadline of the look-up's own: test for ErrUnavailable
	// before testing for [context.DeadlineExceeded].
	ErrUnavailable = errors.New("identity service unavailable")
	// ErrBusy is an [ErrUnavailable]: the token is not known here, and as many such tokens as may be are being looked up.
	ErrBusy = fmt.Errorf("%w: too many unknown tokens at once", ErrUnavailable)
)
