package authn

import (
	"crypto/sha256"
	"sync/atomic"
	"time"
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

// lifetimes are those of each kind, and of a confirmed token while nobody tells of revocations.
type lifetimes struct {
	of        [kinds]lifetime
	overtaken lifetime // of one that was confirmed before the stream was lost
	unwatched lifetime // of one that was confirmed since
}

func (s Settings) lifetimes() lifetimes {
	unwatched := s.inUse(min(s.UnwatchedFor, s.FreshFor))
	return lifetimes{
		of: [kinds]lifetime{
			confirmed:   s.inUse(s.FreshFor),
			unconfirmed: {quiet: outagePause, fresh: outagePause + 2*s.LookUpTimeout},
			unknown:     {quiet: s.NegativeFor, fresh: s.NegativeFor},
			// A revocation is final, and must outlast an outage: it is remembered for as long as a confirmed token would be.
			revoked: {quiet: s.StaleFor, fresh: s.StaleFor},
		},
		// When the stream breaks, many tokens in use are older than they may now become. Were they to be looked up before they
		// are used, a stream that broke because the service hangs would have a request of each of them wait.
		overtaken: lifetime{quiet: unwatched.quiet, fresh: s.FreshFor},
		unwatched: unwatched,
	}
}

// inUse is the lifetime of a confirmed token whose requests are not to wait: it is looked up again in the last third of its
// time, or as much earlier as it takes to find out that the service hangs, but not in the first third.
func (s Settings) inUse(fresh time.Duration) lifetime {
	return lifetime{quiet: max(fresh/3, min(fresh*2/3, fresh-2*s.LookUpTimeout)), fresh: fresh}
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

	asked atomic.Bool // somebody who used it after its quiet time has it looked up again
}
