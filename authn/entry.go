package authn

import (
	"crypto/sha256"
	"sync/atomic"
	"time"

	"github.com/maypok86/otter/v2"
)

// A key is the SHA-256 of a token. Keys are compared with ==, not in constant time: what a comparison could leak is how far
// the hash of a guess agrees with that of a live token, and whoever can steer that has broken SHA-256.
type key = [sha256.Size]byte

// An entry is what is remembered of one token. Times are counted from the start of the Authenticator. But for asked, it
// does not change once others can see it: news make a new entry.
type entry struct {
	principal *Principal // nil for a refusal
	refusal   error      // nil for a principal
	stale     bool       // served because the identity service could not answer
	epoch     uint64     // of trust, see Authenticator.epoch

	askFrom    time.Duration // from here the first to use it has it looked up again, without waiting
	freshUntil time.Duration // until here it is used without waiting
	keepUntil  time.Duration // until here it is used where a look-up fails

	asked atomic.Bool // the first of askFrom has come
}

// newCache makes the bounded memory: a hit takes no lock, and what is asked for often stays when a flood of made-up tokens
// comes by (W-TinyLFU). Freshness is ours to judge; the cache only drops what cannot be used any more.
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
