package authn

import "errors"

// How a cached token will be used, as [Record] has it.
const (
	// RememberedFresh is of a token that is used without asking.
	RememberedFresh = "fresh"
	// RememberedStale is of one that is used because the identity service cannot answer.
	RememberedStale = "stale"
	// RememberedDue is of one that the identity service is asked about before it is used again.
	RememberedDue = "due"
)

// A Record is what is cached of a token.
type Record struct {
	// How a token is used that was not revoked, one of the above.
	How string
	// Principal is whom the token stands for; nil if it was revoked.
	Principal *Principal
	// Revoked has the ids of a token that was revoked; nil for any other.
	Revoked *RevokedError
}

// Remembered returns what is cached of the token of the id, a UUID in lower case. It calls no service, and a token that was neither
// used here nor refused as revoked lately is not found. It looks at every cached token, so it is for operators, not for requests.
func (a *Authenticator) Remembered(tokenID string) (Record, bool) {
	if tokenID == "" {
		return Record{}, false
	}
	for e := range a.entries.confirmed.Values() {
		if e.principal != nil && e.principal.TokenID == tokenID {
			return Record{How: a.how(e), Principal: e.principal}, true
		}
		if ids, ok := errors.AsType[*RevokedError](e.refusal); ok && ids.TokenID == tokenID {
			return Record{Revoked: ids}, true
		}
	}
	return Record{}, false
}

func (a *Authenticator) how(e *entry) string {
	switch {
	case !a.fresh(e, a.now()):
		return RememberedDue
	case e.kind == unconfirmed:
		return RememberedStale
	default:
		return RememberedFresh
	}
}
