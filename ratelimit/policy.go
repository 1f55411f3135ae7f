package ratelimit

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

const (
	// MaxLimits is the most limits that a policy may have.
	MaxLimits = 4
	// MaxExact is the most requests of a limit that is decided exactly.
	MaxExact = 64

	maxRequests = 1_000_000_000
	minPer      = time.Millisecond
	maxPer      = 31 * 24 * time.Hour
)

// A Limit admits Requests in any interval of length Per. An admission at t counts until t+Per, exclusive.
type Limit struct {
	Name     string
	Requests int
	Per      time.Duration
	// Shadow limits are decided and counted as if they were enforced beside the others, and refuse nobody. What they spend is
	// kept apart, so that they never disturb a limit that is enforced.
	Shadow bool
}

// exact says whether the limit is decided by the times of single admissions.
func (l Limit) exact() bool { return l.Requests <= MaxExact }

// width is the length of a bucket in nanoseconds: a sixtieth of the window, rounded up so that sixty buckets cover it.
func (l Limit) width() int64 { return (int64(l.Per) + buckets - 2) / (buckets - 1) }

// A Policy is a list of limits that a request must pass. It never changes.
type Policy struct {
	limits    []Limit
	widths    [MaxLimits]int64 // of the buckets of each limit, in nanoseconds
	tick      int64            // resolution of the times that exact limits are decided by, in nanoseconds
	exactSpan int64            // nanoseconds of the longest exact limit; 0 if there is none
	layout    *layout
}

// NewPolicy checks the limits and returns their policy. There must be 1 to [MaxLimits] of them, with different names and
// lengths, and what is to be remembered of a token must fit into [MaxStateBytes].
func NewPolicy(limits []Limit) (*Policy, error) {
	if len(limits) < 1 || len(limits) > MaxLimits {
		return nil, fmt.Errorf("a policy has 1 to %d limits, not %d", MaxLimits, len(limits))
	}
	p := &Policy{limits: slices.Clone(limits), tick: 1}
	var errs []error
	for i, l := range p.limits {
		if err := l.check(p.limits[:i]); err != nil {
			errs = append(errs, fmt.Errorf("limit %q: %w", l.Name, err))
		}
		p.widths[i] = l.width()
		if l.exact() {
			p.exactSpan = max(p.exactSpan, int64(l.Per))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	p.tick += p.exactSpan >> windowBits
	p.layout = newLayout(p, demand{})
	if n := p.layout.bytes(); n > MaxStateBytes {
		return nil, fmt.Errorf("the limits need %d bytes for each token, of at most %d: take fewer or smaller ones", n, MaxStateBytes)
	}
	return p, nil
}

func (l Limit) check(others []Limit) error {
	switch {
	case l.Name == "":
		return errors.New("has no name")
	case l.Requests < 1 || l.Requests > maxRequests:
		return fmt.Errorf("requests must be 1 to %d, not %d", maxRequests, l.Requests)
	case l.Per < minPer || l.Per > maxPer:
		return fmt.Errorf("per must be %v to %v, not %v", minPer, maxPer, l.Per)
	}
	for _, o := range others {
		if o.Name == l.Name {
			return errors.New("has the name of another limit")
		}
		if o.Per == l.Per {
			return fmt.Errorf("is over %v, as limit %q is: the smaller of the two would be the limit", l.Per, o.Name)
		}
	}
	return nil
}

// Limits returns the limits in their order. They must not be modified.
func (p *Policy) Limits() []Limit { return p.limits }
