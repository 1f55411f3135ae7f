package authn

import (
	"sync"
	"time"
)

const (
	// minOutage is the minimum time between failed lookups of an outage: a single failure, or those of one moment, are none.
	minOutage = retryInterval
	// outageMemory is how long after the last failed lookup an outage is reported. Without requests there are no lookups that could succeed.
	outageMemory = time.Minute
)

// An outage is a series of lookups that fail because the identity service is unavailable. It is safe for concurrent use.
type outage struct {
	mu          sync.Mutex
	down        bool // the last lookup failed
	first, last time.Duration

	anyConfirmed  bool
	lastConfirmed time.Duration // when a token was confirmed last
}

// confirmed records that a token was confirmed.
func (o *outage) confirmed(now time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.anyConfirmed, o.lastConfirmed = true, now
}

// record records the result of a lookup, and reports whether the one before had another.
func (o *outage) record(now time.Duration, failed bool) (changed bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	changed = o.down != failed
	o.down, o.last = failed, now
	if changed {
		o.first = now
	}
	return changed
}

// LookupsFailing returns for how long all lookups of tokens have failed, 0 if they succeed or there was none in the last minute, and for
// how long the last cached tokens are still accepted, 0 if none is.
func (a *Authenticator) LookupsFailing() (failingFor, acceptedFor time.Duration) {
	o, now := &a.outage, a.now()
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.down || o.last-o.first < minOutage || now-o.last > outageMemory {
		return 0, 0
	}
	if o.anyConfirmed {
		acceptedFor = max(0, o.lastConfirmed+a.settings.Load().StaleFor-now)
	}
	return now - o.first, acceptedFor
}
