package authn

import (
	"time"

	"github.com/maypok86/otter/v2"
)

// entries is the bounded memory of tokens: a hit takes no lock. Refusals have room of their own. Whoever makes up tokens can make
// as many as they like, and send each as often as they like; so no rule of what to forget first could keep them from pushing
// tokens in use out of a memory that they share.
type entries struct {
	confirmed *otter.Cache[key, *entry] // tokens that were confirmed here, whatever became of them, and revoked ones
	refused   *otter.Cache[key, *entry] // of others; what confirmed says counts before what this does
}

// refusedShare is which part of the tokens' room refusals have besides.
const refusedShare = 8

// refusedRoom is how many refusals there is room for beside so many tokens.
func refusedRoom(maxEntries int) int { return maxEntries/refusedShare + 1 }

func newEntries(maxEntries int, now func() time.Duration) (e entries, err error) {
	if e.confirmed, err = newCache(maxEntries, now); err != nil {
		return entries{}, err
	}
	e.refused, err = newCache(refusedRoom(maxEntries), now)
	return e, err
}

// get returns the entry of a token that is being used, and the time, which saves the caller a reading of the clock.
func (e entries) get(k key) (_ *entry, now time.Duration, ok bool) {
	found, ok := e.confirmed.GetEntry(k)
	if !ok {
		found, ok = e.refused.GetEntry(k)
	}
	return found.Value, time.Duration(found.SnapshotAtNano), ok
}

// peek is get for those who do not use the token.
func (e entries) peek(k key) (_ *entry, now time.Duration, ok bool) {
	found, ok := e.confirmed.GetEntryQuietly(k)
	if !ok {
		found, ok = e.refused.GetEntryQuietly(k)
	}
	return found.Value, time.Duration(found.SnapshotAtNano), ok
}

// known tells whether the token was confirmed here, or revoked, and that is still remembered.
func (e entries) known(k key) bool {
	_, ok := e.confirmed.GetEntryQuietly(k)
	return ok
}

// set remembers what is news of a token. One at a time may.
func (e entries) set(k key, news *entry) {
	if news.principal == nil && news.kind != revoked && !e.known(k) {
		e.refused.Set(k, news)
		return
	}
	e.confirmed.Set(k, news)
}

func (e entries) size() int { return e.confirmed.EstimatedSize() + e.refused.EstimatedSize() }

// newCache makes one bounded memory, in which what is asked for often stays longest. Freshness is ours to judge; the cache only
// drops what cannot be used any more.
func newCache(maxEntries int, now func() time.Duration) (*otter.Cache[key, *entry], error) {
	return otter.New(&otter.Options[key, *entry]{
		MaximumSize: maxEntries,
		Clock:       cacheClock(now),
		ExpiryCalculator: otter.ExpiryWritingFunc(func(e otter.Entry[key, *entry]) time.Duration {
			return e.Value.keepUntil - time.Duration(e.SnapshotAtNano)
		}),
	})
}

// cacheClock has the cache count time as the entries do.
type cacheClock func() time.Duration

// NowNano implements [otter.Clock].
func (c cacheClock) NowNano() int64 { return int64(c()) }

// Tick implements [otter.Clock]. Without ticks the cache has no goroutine that would have to be stopped; it drops what has
// expired as it is written to.
func (cacheClock) Tick(time.Duration) <-chan time.Time { return nil }
