package ratelimit

// buckets is the number of buckets of a ring: sixty cover the window, and one more is the present, which is not over.
const buckets = 61

// A ring counts admissions in buckets of a sixtieth of a window. Bucket b holds the admissions from b×width to (b+1)×width,
// exclusive, and counts until the last of them has left the window.
type ring struct {
	width  int64
	newest int64 // number of the present bucket
	oldest int64 // no bucket before this one holds anything
	total  int64
	counts [buckets]uint32 // by number modulo buckets
}

func newRing(width, now int64) ring { return ring{width: width, newest: now / width} }

// advance moves the present to now, and drops the buckets that have left the window. Where the clock was set back, what lies
// in the future is moved to the present: it counts for another window at most.
func (r *ring) advance(now int64) {
	present := now / r.width
	switch {
	case present == r.newest:
		return
	case present >= r.newest+buckets:
		r.counts, r.total = [buckets]uint32{}, 0
	case present > r.newest:
		for b := r.newest + 1; b <= present; b++ {
			r.total -= int64(r.counts[b%buckets])
			r.counts[b%buckets] = 0
		}
	default:
		r.rewind(present)
	}
	r.newest = present
}

// rewind merges all buckets after the new present into it.
func (r *ring) rewind(present int64) {
	var future uint32
	for b := max(present+1, r.newest-buckets+1); b <= r.newest; b++ {
		future += r.counts[b%buckets]
		r.counts[b%buckets] = 0
	}
	r.counts[present%buckets] += future
	r.oldest = min(r.oldest, present)
}

// add records n admissions at t, which is not after the present.
func (r *ring) add(t int64, n uint32) {
	if b := t / r.width; b > r.newest-buckets && b <= r.newest {
		if r.total == 0 || b < r.oldest {
			r.oldest = b
		}
		r.counts[b%buckets] += n
		r.total += int64(n)
	}
}

// remove forgets an admission at t, if it counts.
func (r *ring) remove(t int64) {
	if b := t / r.width; b > r.newest-buckets && b <= r.newest && r.counts[b%buckets] > 0 {
		r.counts[b%buckets]--
		r.total--
	}
}

// opens returns when at most k admissions count: 0 when that is so already.
func (r *ring) opens(k int64) int64 {
	left := r.total
	if left <= k {
		return 0
	}
	for b := max(r.oldest, r.newest-buckets+1); ; b++ {
		if left -= int64(r.counts[b%buckets]); left <= k {
			return (b + buckets) * r.width
		}
	}
}
