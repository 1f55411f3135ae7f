package ratelimit

// MaxStateBytes bounds the counts and times that are remembered of one token. Two limits fit in, whatever they are; the words
// around them that say where they are take another 104 bytes.
const MaxStateBytes = 512

// A layout says where in a state's words what is kept. Numbers are no wider than they may have to be, so that four limits
// fit into [MaxStateBytes].
type layout struct {
	rules    *rules
	words    int
	capacity int              // times of admissions that are kept
	stamps   field            // those times
	counts   [MaxLimits]field // the buckets of each limit that is not exact
}

// A demand is what a state must have room for beyond what its policy asks for: after a change of policy, a token may have
// spent more than the new limits admit, and that is not forgotten.
type demand struct {
	stamps int
	counts [MaxLimits]int64
}

func newLayout(r *rules, d demand) *layout {
	l := &layout{rules: r}
	bits := 0
	add := func(n, width int) field {
		f := field{offset: uint32(bits), bits: uint32(width)}
		bits += n * width
		return f
	}
	for i, limit := range r.limits {
		if limit.exact() {
			l.capacity = max(l.capacity, limit.Requests)
		} else {
			l.counts[i] = add(buckets, bitsOf(max(int64(limit.Requests), d.counts[i])))
		}
	}
	if l.capacity > 0 {
		l.capacity = max(l.capacity, d.stamps)
		l.stamps = add(l.capacity, stampBits)
	}
	l.words = (bits + wordBits - 1) / wordBits
	return l
}

// bytes is the size of what a state of this layout remembers.
func (l *layout) bytes() int { return l.words * wordBits / 8 }
