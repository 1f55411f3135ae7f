package authn

// What is remembered of a token, as [Authenticator.Remembered] says it.
const (
	// RememberedFresh is of a token that is used without asking.
	RememberedFresh = "fresh"
	// RememberedStale is of one that is used because the identity service cannot answer.
	RememberedStale = "stale"
	// RememberedDue is of one that the identity service is asked about before it is used again.
	RememberedDue = "due"
)

// Remembered returns whom the token of the id stands for, and how that is known, from memory alone: it calls nobody, and a token
// that is not in use here is not found. It looks at every token in memory, so it is for people who ask, not for requests.
func (a *Authenticator) Remembered(tokenID string) (p *Principal, how string, ok bool) {
	for e := range a.entries.confirmed.Values() {
		if e.principal != nil && e.principal.TokenID == tokenID {
			return e.principal, a.how(e), true
		}
	}
	return nil, "", false
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
