package authn

import (
	"crypto/sha256"
	"sync/atomic"
	"time"
)

// A key is the SHA-256 of a token. Keys are compared with ==, not in constant time: a timing attack
// could reveal only a prefix of the hash of a live token, which is useless without an attack on
// SHA-256.
type key = [sha256.Size]byte

// A state is the state of a cached token.
type state uint8

const (
	confirmed   state = iota // the identity service returned its principal
	unconfirmed              // a principal or a refusal of an earlier lookup; the last one failed
	notFound                 // the token does not exist
	revoked                  // the token was revoked
	numStates
)

// ageLimits are the ages of an entry, since entry.determinedAt, at which it needs a lookup.
type ageLimits struct {
	refreshAfter time.Duration // from this age on, a use starts a lookup in the background
	expireAfter  time.Duration // from this age on, a use waits for a lookup
}

// ageLimitTable has the age limits by state. They follow from the settings and not from the entry,
// so that changed settings apply at once.
type ageLimitTable struct {
	byState          [numStates]ageLimits
	beforeDisconnect ageLimits // of a token that was confirmed before the revocation stream was disconnected
	duringDisconnect ageLimits // of a token that was confirmed since
}

// settings are the current Settings and the age limits that follow from them.
type settings struct {
	Settings

	limits ageLimitTable
}

func (s Settings) ageLimitTable() ageLimitTable {
	duringDisconnect := s.confirmedAgeLimits(s.FreshFor / disconnectedDivisor)
	return ageLimitTable{
		byState: [numStates]ageLimits{
			confirmed: s.confirmedAgeLimits(s.FreshFor),
			// A request waits only if no lookup in the background has ended within two timeouts
			// after it was due.
			unconfirmed: {refreshAfter: retryInterval, expireAfter: retryInterval + 2*s.LookupTimeout},
			notFound:    {refreshAfter: negativeTTL, expireAfter: negativeTTL},
			// A revocation is final and must outlast an outage, so it is cached as long as a
			// confirmed token.
			revoked: {refreshAfter: s.StaleFor, expireAfter: s.StaleFor},
		},
		// When the stream is disconnected, many tokens in use are older than the shorter TTL. They
		// are refreshed in the background, so that none of their requests waits if the service
		// hangs.
		beforeDisconnect: ageLimits{refreshAfter: duringDisconnect.refreshAfter, expireAfter: s.FreshFor},
		duringDisconnect: duringDisconnect,
	}
}

// confirmedAgeLimits returns the age limits of a confirmed token that may be used for the given
// time without a lookup. A token in use is refreshed before it expires, so that its requests do not
// wait. The refresh starts at 2/3 of that time, or earlier to leave time for two timeouts, but
// never before 1/3.
func (s Settings) confirmedAgeLimits(fresh time.Duration) ageLimits {
	return ageLimits{refreshAfter: max(fresh/3, min(fresh*2/3, fresh-2*s.LookupTimeout)), expireAfter: fresh}
}

// An entry is the cached result of a lookup. Times are relative to the start of the Authenticator.
// An entry is immutable except for refreshing.
type entry struct {
	principal *Principal // nil for a refusal
	refusal   error      // nil for a principal
	state     state
	epoch     uint64 // see Authenticator.epoch

	determinedAt time.Duration // when the state was determined
	confirmedAt  time.Duration // when the identity service last confirmed it
	keepUntil    time.Duration // when the cache evicts it; until then it is used if a lookup fails

	refreshing atomic.Bool // a refresh was started
}
