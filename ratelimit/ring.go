package ratelimit

// buckets is the number of buckets of a ring: sixty cover the window, and one more is the present, which is not over.
const buckets = 61

// A ring counts a token's admissions in buckets of a sixtieth of a limit's window. Bucket b holds the admissions from b×width
// to (b+1)×width, exclusive, and counts in full until the last instant that it may hold has left the window. It is a view of
// the part of the state that belongs to the limit.
type ring struct {
	s      *state
	i      int // the limit's index in the policy
	width  int64
	newest int64 // number of the present bucket
}

func (s *state) ring(i int) ring {
	width := s.layout.rules.widths[i]
	return ring{s: s, i: i, width: width, newest: s.seen / width}
}

// oldest is the number of a bucket before which there is nothing.
func (r ring) oldest() int64 { return r.newest - int64(r.s.reach[r.i]) }

func (r ring) total() int64 { return int64(r.s.totals[r.i]) }

func (r ring) get(b int64) int64 {
	return int64(r.s.layout.counts[r.i].get(r.s.words, int(b%buckets)))
}

func (r ring) set(b, n int64) {
	r.s.layout.counts[r.i].set(r.s.words, int(b%buckets), uint64(n))
}

// take empties a bucket and returns what was in it.
func (r ring) take(b int64) int64 {
	n := r.get(b)
	if n > 0 {
		r.set(b, 0)
		r.s.totals[r.i] -= uint32(n)
	}
	return n
}

// holds says whether bucket b is in the window.
func (r ring) holds(b int64) bool { return b <= r.newest && b > r.newest-buckets }

// add records n admissions at t. A count that the layout has no room for stays at its largest, which is no less than the limit.
func (r ring) add(t, n int64) {
	b := t / r.width
	if !r.holds(b) {
		return
	}
	old := r.get(b)
	sum := min(old+n, int64(r.s.layout.counts[r.i].limit()))
	r.set(b, sum)
	r.s.totals[r.i] += uint32(sum - old)
	r.s.reach[r.i] = max(r.s.reach[r.i], uint8(r.newest-b))
}

// remove forgets an admission at t, if it counts.
func (r ring) remove(t int64) {
	b := t / r.width
	if !r.holds(b) {
		return
	}
	if n := r.get(b); n > 0 {
		r.set(b, n-1)
		r.s.totals[r.i]--
	}
}

// advance moves the present to now, and drops the buckets that leave the window. Where the clock was set back, what lies in
// the future is moved to the present: it counts for another window at most.
func (r ring) advance(now int64) {
	present, oldest := now/r.width, r.oldest()
	if present == r.newest {
		return
	}
	var future int64
	for b := oldest; b <= min(r.newest, present-buckets); b++ {
		r.take(b)
	}
	for b := max(oldest, present+1); b <= r.newest; b++ {
		future += r.take(b)
	}
	r.s.reach[r.i] = 0
	if r.total() > 0 {
		r.s.reach[r.i] = uint8(min(present-oldest, buckets-1))
	}
	r.newest = present
	r.add(now, future)
}

// opens returns when at most k admissions count: 0 when that is so already.
func (r ring) opens(k int64) int64 {
	left := r.total()
	if left <= k {
		return 0
	}
	b := r.oldest()
	for r.get(b) == 0 { // the next time, the way is shorter
		b++
		r.s.reach[r.i]--
	}
	for ; ; b++ {
		if left -= r.get(b); left <= k {
			return (b + buckets) * r.width
		}
	}
}
