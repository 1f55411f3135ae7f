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

// A kind is what is known of a token. How long that holds is for the settings, so that they hold at once when they change.
type kind uint8

const (
	confirmed   kind = iota // the identity service says whom it stands for
	unconfirmed             // as it was when the identity service could still answer
	unknown                 // there is no such token
	revoked                 // there is no more
	kinds
)

// A lifetime is how long after it was learned something is used.
type lifetime struct {
	quiet time.Duration // after it, the first to use it has it looked up again, without waiting
	fresh time.Duration // after it, it is looked up before it is used
}

// lifetimes are those of each kind.
type lifetimes [kinds]lifetime

func (s Settings) lifetimes() lifetimes {
	return lifetimes{
		// A token in use is looked up again in the last third of its time, so that its requests never wait.
		confirmed:   {quiet: s.FreshFor * 2 / 3, fresh: s.FreshFor},
		unconfirmed: {quiet: outagePause, fresh: outageGrace},
		unknown:     {quiet: s.NegativeFor, fresh: s.NegativeFor},
		// A revocation is final, and must outlast an outage: it is remembered for as long as a confirmed token would be.
		revoked: {quiet: s.StaleFor, fresh: s.StaleFor},
	}
}

// An entry is what is remembered of one token. Times are counted from the start of the memory. But for asked, it
// does not change once others can see it: news make a new entry.
type entry struct {
	principal *Principal // nil for a refusal
	refusal   error      // nil for a principal
	kind      kind
	epoch     uint64 // of trust, see memory.epoch

	since     time.Duration // when it was learned, or its kind last changed
	confirmed time.Duration // when the identity service last said so
	keepUntil time.Duration // until here it is used where a look-up fails; then the cache drops it

	asked atomic.Bool // its quiet time is over, and somebody noticed
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
