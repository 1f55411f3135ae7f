package authn

import (
	"errors"
	"iter"
	"time"
)

// The values of CachedToken.Freshness.
const (
	// cachedFresh is the freshness of a token that is accepted without a lookup.
	cachedFresh = "fresh"
	// cachedStale is the freshness of a token that is accepted because the identity service is
	// unavailable.
	cachedStale = "stale"
	// cachedDue is the freshness of a token that is looked up before its next use.
	cachedDue = "due"
	// cachedExpired is the freshness of a token that is refused because it has expired.
	cachedExpired = "expired"
	// cachedRevoked is the freshness of a token that is refused because it was revoked.
	cachedRevoked = "revoked"
)

// A CachedToken is the cache entry of a token.
type CachedToken struct {
	// Freshness is "fresh", "stale", "due", "expired" or "revoked".
	Freshness string
	// Principal is nil for a revoked token.
	Principal *Principal
	// Refused is the error of an expired or revoked token; nil for any other.
	Refused *RefusedError
}

// An Identity has the ids and the names of a token and its team, and its limit class, as in
// [Principal]; "" for what is not known.
type Identity struct {
	TokenID, TeamID     string
	TokenName, TeamName string
	LimitClass          string
}

// Identity returns the ids and names of the token.
func (t CachedToken) Identity() Identity {
	switch {
	case t.Principal != nil:
		return t.Principal.identity()
	case t.Refused != nil:
		return t.Refused.Identity
	default:
		return Identity{}
	}
}

// CachedTokens returns the cache entries of tokens that were used here or refused here as revoked,
// in no order. It scans the whole cache, which delays no request, and is meant for operators.
func (a *Authenticator) CachedTokens() iter.Seq[CachedToken] {
	return func(yield func(CachedToken) bool) {
		s, now := a.settings.Load(), a.now()
		for e := range a.entries.known.Values() {
			t := CachedToken{Principal: e.principal}
			if ids, ok := errors.AsType[*RefusedError](e.refusal); ok {
				t.Freshness, t.Refused = cachedRevoked, ids
			} else if e.principal == nil {
				continue // the token does not exist any more
			} else if t.Refused = a.expired(e.principal); t.Refused != nil {
				t.Freshness = cachedExpired
			} else {
				t.Freshness = a.freshness(s, e, now)
			}
			if !yield(t) {
				return
			}
		}
	}
}

// CachedToken returns the cache entry of a token by its id, a UUID in lower case. It calls no
// service: only the tokens of [Authenticator.CachedTokens] are found.
func (a *Authenticator) CachedToken(tokenID string) (CachedToken, bool) {
	if tokenID == "" {
		return CachedToken{}, false
	}
	for t := range a.CachedTokens() {
		if t.Identity().TokenID == tokenID {
			return t, true
		}
	}
	return CachedToken{}, false
}

func (a *Authenticator) freshness(s *settings, e *entry, now time.Duration) string {
	switch {
	case !a.fresh(a.ageLimits(s, e), e, now):
		return cachedDue
	case e.state == unconfirmed:
		return cachedStale
	default:
		return cachedFresh
	}
}
