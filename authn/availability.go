package authn

import (
	"sync"
	"time"
)

const (
	// minOutage is the minimum time from the first to the last failed lookup of an outage, so that
	// a short burst of failures is not one.
	minOutage = retryInterval
	// outageMemory is how long after the last failed lookup an outage is reported. Without
	// requests, no lookup could end it.
	outageMemory = time.Minute
)

// availability records whether lookups fail because the identity service is unavailable. It is safe
// for concurrent use.
type availability struct {
	mu          sync.Mutex
	down        bool          // the last lookup failed
	first, last time.Duration // times of the first and last lookup of the current series of failures or successes

	anyConfirmed  bool
	lastConfirmed time.Duration // when a token was confirmed last
}

// tokenConfirmed records that a token was confirmed.
func (v *availability) tokenConfirmed(now time.Duration) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.anyConfirmed, v.lastConfirmed = true, now
}

// record records the result of a lookup.
func (v *availability) record(now time.Duration, failed bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.down != failed {
		v.first = now
	}
	v.down, v.last = failed, now
}

// LookupsFailing returns for how long all lookups of tokens have failed, and for how long the token
// that was confirmed last is still accepted, 0 if none is. Both are 0 if the last lookup succeeded,
// the failures span less than minOutage, or the last lookup is older than outageMemory.
func (a *Authenticator) LookupsFailing() (failingFor, acceptedFor time.Duration) {
	v, now := &a.availability, a.now()
	v.mu.Lock()
	defer v.mu.Unlock()
	if !v.down || v.last-v.first < minOutage || now-v.last > outageMemory {
		return 0, 0
	}
	if v.anyConfirmed {
		acceptedFor = max(0, v.lastConfirmed+a.settings.Load().StaleFor-now)
	}
	return now - v.first, acceptedFor
}
