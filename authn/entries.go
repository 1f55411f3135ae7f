package authn

import (
	"time"

	"github.com/maypok86/otter/v2"
)

// entries is the bounded token cache. A hit takes no lock. Refusals of tokens that were never
// confirmed have a cache of their own: an attacker can invent any number of tokens and send each
// any number of times, so no eviction policy of a shared cache would protect the tokens in use.
type entries struct {
	known   *otter.Cache[key, *entry] // tokens that were confirmed here, whatever their state is now, and revoked ones
	refused *otter.Cache[key, *entry] // other tokens; an entry in known takes precedence
}

// refusedDivisor is the ratio of the capacities of known and refused.
const refusedDivisor = 8

// refusedCapacity returns the capacity of refused.
func refusedCapacity(maxEntries int) int { return maxEntries/refusedDivisor + 1 }

func newEntries(maxEntries int, now func() time.Duration) (e entries, err error) {
	if e.known, err = newCache(maxEntries, now); err != nil {
		return entries{}, err
	}
	e.refused, err = newCache(refusedCapacity(maxEntries), now)
	return e, err
}

// get returns the entry of a token, which counts as a use for eviction, and the time, which saves
// the caller a reading of the clock.
func (e entries) get(k key) (_ *entry, now time.Duration, ok bool) {
	found, ok := e.known.GetEntry(k)
	if !ok {
		found, ok = e.refused.GetEntry(k)
	}
	return found.Value, time.Duration(found.SnapshotAtNano), ok
}

// peek is get without an effect on eviction.
func (e entries) peek(k key) (_ *entry, now time.Duration, ok bool) {
	found, ok := e.known.GetEntryQuietly(k)
	if !ok {
		found, ok = e.refused.GetEntryQuietly(k)
	}
	return found.Value, time.Duration(found.SnapshotAtNano), ok
}

// isKnown reports whether the token is cached as one that was confirmed here or revoked.
func (e entries) isKnown(k key) bool {
	_, ok := e.known.GetEntryQuietly(k)
	return ok
}

// set stores an entry. Calls must not be concurrent.
func (e entries) set(k key, stored *entry) {
	if stored.principal == nil && stored.state != revoked && !e.isKnown(k) {
		e.refused.Set(k, stored)
		return
	}
	e.known.Set(k, stored)
}

func (e entries) size() int { return e.known.EstimatedSize() + e.refused.EstimatedSize() }

// newCache makes a bounded cache that evicts entries at keepUntil, and the least frequently used
// ones when it is full.
func newCache(maxEntries int, now func() time.Duration) (*otter.Cache[key, *entry], error) {
	return otter.New(&otter.Options[key, *entry]{
		MaximumSize: maxEntries,
		Clock:       cacheClock(now),
		ExpiryCalculator: otter.ExpiryWritingFunc(func(e otter.Entry[key, *entry]) time.Duration {
			return e.Value.keepUntil - time.Duration(e.SnapshotAtNano)
		}),
	})
}

// cacheClock is the Authenticator's clock as an [otter.Clock].
type cacheClock func() time.Duration

// NowNano implements [otter.Clock].
func (c cacheClock) NowNano() int64 { return int64(c()) }

// Tick implements [otter.Clock]. Without ticks the cache has no goroutine that would have to be
// stopped; it evicts expired entries on writes.
func (cacheClock) Tick(time.Duration) <-chan time.Time { return nil }
