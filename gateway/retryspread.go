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
	// overbooking is the number of clients that return for each request that the limit admits.
	// Clients do not return evenly within a second, so with the factor 1 part of the rate is
	// unused. In 2000 simulations of 20 clients of a token with 3 requests per second:
	//
	//	factor   time / ideal time         denials per request
	//	1.0      mean 1.17, maximum 1.35   mean 1.3
	//	1.4      mean 1.04, maximum 1.22   mean 1.6, maximum 2
	overbooking = 1.4

	// 4096 tokens in 170 KB, in sets that are locked one by one.
	tokenSets    = 1024
	tokensPerSet = 4
)

// RetrySpread spreads the Retry-After of clients that share a token and are denied together, so
// that they do not return together. The first client gets the shortest sufficient wait. Each
// further one gets the next second in which the limit admits another client, at most maxSpread
// seconds later than the first. Each gateway spreads its own denials.
//
// It counts the clients of 4096 tokens. A further token replaces another one, whose next client
// gets the shortest wait again. It is safe for concurrent use.
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

// tokenReturns counts the clients of one token by the Unix second in which their wait ends: clients[i]
// return in the second first+i. In the second first, the limit admits the token again. The shortest
// wait, which is rounded up to seconds, ends then or one second later.
type tokenReturns struct {
	tokenHash uint64
	first     int64
	clients   [1 + 1 + maxSpread]uint32
}

// NewRetrySpread returns a RetrySpread. The function gateways returns the number of gateways among
// which the clients of a token are divided; it is called for each denial.
func NewRetrySpread(gateways func() int) *RetrySpread {
	return &RetrySpread{gateways: gateways, seed: maphash.MakeSeed()}
}

// retryAfter returns the Retry-After of a request that the limit l denies at now: whole seconds, at
// least one (RFC 9110, section 10.2.3). The limit admits the token again after shortest. A nil
// RetrySpread spreads nothing, and a limit that blocks has no rate to spread by.
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

// find returns the counts of a token. A new token replaces the one whose clients return first.
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

// setFirst changes the first second, and drops counts outside of the new range. The first second
// moves back after a refund, a change of limits or a step of the clock.
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

// add counts a client that returns in the given second or up to maxSpread seconds later, and
// returns the delay in seconds: the shortest within the rate, or maxSpread. In the given second at
// least one client can return, so a client that is denied alone gets the shortest wait.
func (r *tokenReturns) add(second int64, perSecond float64) (delay int) {
	start := int(second - r.first)
	clients := r.clients[start : start+maxSpread+1]
	var sum uint32 // of clients until the second; fewer in an earlier second leave room for more in a later one
	for delay = range clients {
		sum += clients[delay]
		if float64(sum) < math.Ceil(perSecond*float64(delay+1)) {
			break
		}
	}
	clients[delay]++
	return delay
}
