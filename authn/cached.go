package authn

import "errors"

// The values of CachedToken.Freshness.
const (
	// cachedFresh is the freshness of a token that is accepted without a lookup.
	cachedFresh = "fresh"
	// cachedStale is the freshness of a token that is accepted because the identity service is unavailable.
	cachedStale = "stale"
	// cachedDue is the freshness of a token that is looked up before its next use.
	cachedDue = "due"
)

// A CachedToken is the cache entry of a token.
type CachedToken struct {
	// Freshness is "fresh", "stale" or "due", or "" for a revoked token.
	Freshness string
	// Principal is nil for a revoked token.
	Principal *Principal
	// Revoked has the ids of a revoked token; nil for any other.
	Revoked *RevokedError
}

// CachedToken returns the cache entry of a token by its id, a UUID in lower case. It calls no service: only a token that was used here,
// or was refused here as revoked, is found. It scans the whole cache and is meant for operators, not for requests.
func (a *Authenticator) CachedToken(tokenID string) (CachedToken, bool) {
	if tokenID == "" {
		return CachedToken{}, false
	}
	for e := range a.entries.known.Values() {
		if e.principal != nil && e.principal.TokenID == tokenID {
			return CachedToken{Freshness: a.freshness(e), Principal: e.principal}, true
		}
		if ids, ok := errors.AsType[*RevokedError](e.refusal); ok && ids.TokenID == tokenID {
			return CachedToken{Revoked: ids}, true
		}
	}
	return CachedToken{}, false
}

func (a *Authenticator) freshness(e *entry) string {
	switch {
	case !a.fresh(a.ageLimits(a.settings.Load(), e), e, a.now()):
		return cachedDue
	case e.state == unconfirmed:
		return cachedStale
	default:
		return cachedFresh
	}
}
