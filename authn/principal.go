package authn

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
	"unique"

	"opsgate/internal/uuid"
	identityv1 "opsgate/proto/ops/identity/v1"
)

// A Principal is the authenticated team and what its token may do. It is shared between requests
// and must not be modified.
type Principal struct {
	// TokenID is the token's id, a UUID in lower case. Limits and logs use it.
	TokenID string
	// TeamID is the token's team, a UUID in lower case.
	TeamID string
	// Scopes are the token's permissions.
	Scopes Scopes
	// AIPlan reports whether the team's plan includes the public API.
	AIPlan bool
	// TokenName is the token's name, for operators; "" if it has none. It has at most 100 printable
	// characters.
	TokenName string
	// LimitClass is the name of the class of limits that the identity service states; "" for none.
	// It has at most 64 visible ASCII characters.
	LimitClass string
	// ExpiresAt is when the token expires; zero for never.
	ExpiresAt time.Time

	teamName unique.Handle[string] // many tokens have the same
}

// TeamName returns the name of the team, for operators; "" if it has none. It has at most 100
// printable characters.
func (p *Principal) TeamName() string {
	if p.teamName == (unique.Handle[string]{}) {
		return ""
	}
	return p.teamName.Value()
}

func (p *Principal) identity() Identity {
	return Identity{p.TokenID, p.TeamID, p.TokenName, p.TeamName(), p.LimitClass}
}

// newPrincipal converts a response, or returns an [ErrContract]. It checks that the ids are UUIDs:
// other services reject an invalid team id, and the client would get that as an error of its
// request. It refuses an expiry before 1970, which stands for an absent one: a client may delete a
// token that gets a 401. The error contains nothing of the response, as it may be logged.
func newPrincipal(r *identityv1.ResolveTokenResponse) (*Principal, error) {
	tokenID, ok := uuid.Canonical(r.GetTokenId())
	if !ok {
		return nil, fmt.Errorf("%w: the token id of a response is not a UUID", ErrContract)
	}
	teamID, ok := uuid.Canonical(r.GetTeamId())
	if !ok {
		return nil, fmt.Errorf("%w: the team id of a response is not a UUID", ErrContract)
	}
	class := r.GetLimitClass()
	if len(class) > maxLimitClass || strings.ContainsFunc(class, func(c rune) bool { return c <= ' ' || c > '~' }) {
		return nil, fmt.Errorf("%w: the limit class of a response has more than %d characters, or others than visible ASCII",
			ErrContract, maxLimitClass)
	}
	var expiresAt time.Time
	if at := r.GetExpiresAt(); at != nil {
		if expiresAt = at.AsTime(); !at.IsValid() || expiresAt.Unix() <= 0 {
			return nil, fmt.Errorf("%w: the expiry of a response is not a valid time", ErrContract)
		}
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

		TokenName:  displayName(r.GetTokenName()),
		LimitClass: class,
		ExpiresAt:  expiresAt,
		teamName:   unique.Make(displayName(r.GetTeamName())),
	}, nil
}

// maxLimitClass is the maximum number of characters of Principal.LimitClass.
const maxLimitClass = 64

// maxName is the maximum number of characters of a displayed name, which bounds the memory of a
// cached token.
const maxName = 100

// brailleBlank is a symbol that looks like a space.
const brailleBlank = '\u2800'

// displayName returns a name as operators may read it on a page or a terminal: characters that
// cannot be seen or that change the text around them are escaped, and what follows the first
// maxName characters is cut.
func displayName(name string) string {
	var b strings.Builder
	left := maxName
	for _, c := range strings.TrimSpace(name) {
		shown := string(c)
		if !unicode.IsPrint(c) || c == brailleBlank ||
			unicode.In(c, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector) {
			shown = strings.Trim(strconv.QuoteRuneToASCII(c), "'")
		}
		if left -= utf8.RuneCountInString(shown); left < 0 {
			break
		}
		b.WriteString(shown)
	}
	return b.String()
}

var (
	// ErrInvalidToken means that the token is rejected. [Authenticator.Authenticate] returns it
	// wrapped in one of the four errors below, which are for logs: clients get the same response
	// for each (docs/integrate/contract.md, "Authentication").
	ErrInvalidToken = errors.New("invalid token")
	// ErrMalformed is an [ErrInvalidToken] for a token that does not have the format. It is not
	// looked up.
	ErrMalformed = fmt.Errorf("%w: malformed", ErrInvalidToken)
	// ErrNotFound is an [ErrInvalidToken] for a token that does not exist.
	ErrNotFound = fmt.Errorf("%w: unknown", ErrInvalidToken)
	// ErrRevoked is an [ErrInvalidToken] for a revoked token. The errors that wrap it are of type
	// [RefusedError].
	ErrRevoked = fmt.Errorf("%w: revoked", ErrInvalidToken)
	// ErrExpired is an [ErrInvalidToken] for an expired token. The errors that wrap it are of type
	// [RefusedError].
	ErrExpired = fmt.Errorf("%w: expired", ErrInvalidToken)
	// ErrUnavailable means that the identity service is unavailable and no recent result is cached.
	// It is returned wrapped with the cause, which may be the lookup's own timeout: test for
	// ErrUnavailable before [context.DeadlineExceeded].
	ErrUnavailable = errors.New("identity service unavailable")
	// ErrContract means that the response of the identity service breaks the contract and no recent
	// result is cached. It is a failure of the service, not of the token.
	ErrContract = errors.New("identity service breaks the contract")
	// ErrBusy is an [ErrUnavailable] for an unknown token: too many requests wait for lookups, or
	// its lookup did not start in time.
	ErrBusy = fmt.Errorf("%w: too many unknown tokens at once", ErrUnavailable)
)

// A RefusedError is an [ErrRevoked] or [ErrExpired] with what is known of the token, for logs.
type RefusedError struct {
	Identity

	Reason error
}

// Error returns the text of the reason.
func (e *RefusedError) Error() string { return e.Reason.Error() }

// Unwrap returns the reason.
func (e *RefusedError) Unwrap() error { return e.Reason }
