package gateway

import (
	"hash/maphash"
	"math"
	"sync"
	"time"

	"opsgate/ratelimit"
)

const (
	// maxSpread is the maximum number of seconds by which Retry-After exceeds the shortest
	// sufficient wait.
	maxSpread = 4
	// overbooking is the number of clients that return for each request that the limit admits.
	// Clients do not return evenly within a second, so with the factor 1 a part of the rate would
	// remain unused. In 2000 simulations of 20 clients of a token with 3 requests per second:
	//
	//	factor   time / ideal time         denials per request
	//	1.0      mean 1.17, maximum 1.35   mean 1.3
	//	1.4      mean 1.04, maximum 1.22   mean 1.6, maximum 2
	overbooking = 1.4

	// RetrySpread has 4096 tokens in 170 KB, in sets that are locked separately.
	tokenSets    = 1024
	tokensPerSet = 4
)

// RetrySpread spreads the Retry-After of clients that share a token and are denied together, so
// that they do not return together. The first client gets the shortest sufficient wait. Each
// further client gets the next second in which the limit admits another one, at most maxSpread
// seconds later than the first. Each gateway spreads its own denials.
//
// RetrySpread counts the clients of 4096 tokens. A further token replaces another token, whose next
// client gets the shortest wait again. RetrySpread is safe for concurrent use.
type RetrySpread struct {
	gateways func() int
	seed     maphash.Seed
	sets     [tokenSets]tokenSet
}

// A tokenSet has tokens with the same hash modulo tokenSets.
type tokenSet struct {
	mu     sync.Mutex
	tokens [tokensPerSet]tokenReturns
}

// tokenReturns counts the clients of one token by the Unix second in which their wait ends:
// clients[i] of them return in the second first+i. The limit admits the token again in the second
// first. The shortest wait is rounded up to seconds, so it ends in the second first or the next.
type tokenReturns struct {
	tokenHash uint64
	first     int64
	clients   [1 + 1 + maxSpread]uint32
}

// NewRetrySpread returns a RetrySpread. It calls gateways for each denial; gateways returns the
// number of gateways among which the clients of a token are divided.
func NewRetrySpread(gateways func() int) *RetrySpread {
	return &RetrySpread{gateways: gateways, seed: maphash.MakeSeed()}
}

// retryAfter returns the Retry-After of a request that the limit l denies at now: whole seconds, at
// least one (RFC 9110, section 10.2.3). The limit admits the token again after shortest. Without
// spreading, for a nil RetrySpread or a limit of 0 requests, it returns shortest, rounded up.
func (s *RetrySpread) retryAfter(
	now time.Time, tokenID string, l ratelimit.Limit, shortest time.Duration,
) time.Duration {
	shortest = max(0, shortest)
	wait := time.Duration(max(1, wholeSeconds(shortest))) * time.Second
	if s == nil || l.Requests == 0 {
		return wait
	}
	perSecond := overbooking * float64(l.Requests) / l.Per.Seconds() / float64(max(1, s.gateways()))
	hash := maphash.String(s.seed, tokenID)
	set := &s.sets[hash%tokenSets]
	set.mu.Lock()
	defer set.mu.Unlock()
	r := set.find(hash)
	r.setFirst(now.Add(shortest).Unix())
	delay := r.add(now.Add(wait).Unix(), perSecond)
	return wait + time.Duration(delay)*time.Second
}

// find returns the counts of a token. A new token replaces the token whose clients return first.
func (s *tokenSet) find(tokenHash uint64) *tokenReturns {
	oldest := &s.tokens[0]
	for i := range s.tokens {
		r := &s.tokens[i]
		if r.tokenHash == tokenHash {
			return r
		}
		if r.first < oldest.first {
			oldest = r
		}
	}
	*oldest = tokenReturns{tokenHash: tokenHash}
	return oldest
}

// setFirst changes the first second, and drops the counts outside of the new range. The first
// second moves back after a refund, a change of limits or a step of the clock.
func (r *tokenReturns) setFirst(first int64) {
	shift := first - r.first
	if shift == 0 {
		return
	}
	old := r.clients
	clear(r.clients[:])
	for i, n := range old {
		if at := int64(i) - shift; at >= 0 && at < int64(len(old)) {
			r.clients[at] = n
		}
	}
	r.first = first
}

// add chooses the second in which a client returns, and counts the client there. It returns the
// delay after the given second: the shortest delay within the rate, or maxSpread. The rate allows
// at least one client in the given second, so a client that is denied alone gets the shortest wait.
func (r *tokenReturns) add(second int64, perSecond float64) (delay int) {
	start := int(second - r.first)
	clients := r.clients[start : start+maxSpread+1]
	var sum uint32 // all clients until the second, so that an unused part of the rate remains for later seconds
	for delay = range clients {
		sum += clients[delay]
		if float64(sum) < math.Ceil(perSecond*float64(delay+1)) {
			break
		}
	}
	clients[delay]++
	return delay
}
