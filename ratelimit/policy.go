package ratelimit

import (
	"cmp"
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
	limits   []Limit
	enforced *rules
	shadow   *rules // nil where no limit is in shadow
	shareOf  []int  // of a share: which limit of the whole each limit is for
}

// rules are limits that are decided and spent together: those of a policy that are enforced, or those in shadow.
type rules struct {
	limits    []Limit
	of        []int            // their indexes in the policy
	byPer     []int            // their indexes here, the shortest first
	widths    [MaxLimits]int64 // of the buckets of each limit, in nanoseconds
	tick      int64            // resolution of the times that exact limits are decided by, in nanoseconds
	exactSpan int64            // nanoseconds of the longest exact limit; 0 if there is none
	layout    *layout
	room      int // bytes that a state may grow to, after a change of policy
}

// NewPolicy checks the limits and returns their policy. There must be 1 to [MaxLimits] of them, at least one of them enforced,
// with different names and lengths, and what is to be remembered of a token must fit into [MaxStateBytes].
func NewPolicy(limits []Limit) (*Policy, error) { return newPolicy(limits, MaxStateBytes) }

func newPolicy(limits []Limit, bytes int) (*Policy, error) {
	if len(limits) < 1 || len(limits) > MaxLimits {
		return nil, fmt.Errorf("a policy has 1 to %d limits, not %d", MaxLimits, len(limits))
	}
	p := &Policy{limits: slices.Clone(limits)}
	var errs []error
	for i, l := range p.limits {
		if err := l.check(p.limits[:i]); err != nil {
			errs = append(errs, fmt.Errorf("limit %q: %w", l.Name, err))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	p.enforced, p.shadow = newRules(p.limits, false), newRules(p.limits, true)
	if p.enforced == nil {
		return nil, errors.New("every limit is in shadow: at least one must be enforced")
	}
	p.enforced.room = bytes
	if p.shadow != nil {
		p.shadow.room = p.shadow.layout.bytes()
		p.enforced.room -= p.shadow.room
	}
	if over := p.enforced.layout.bytes() - p.enforced.room; over > 0 {
		return nil, fmt.Errorf("the limits need %d bytes for each token, of at most %d: take fewer or smaller ones", bytes+over, bytes)
	}
	return p, nil
}

// newRules returns the limits that are in shadow, or those that are not; nil for none.
func newRules(limits []Limit, shadow bool) *rules {
	r := &rules{tick: 1}
	for i, l := range limits {
		if l.Shadow != shadow {
			continue
		}
		r.widths[len(r.limits)] = l.width()
		r.limits, r.of = append(r.limits, l), append(r.of, i)
		if l.exact() {
			r.exactSpan = max(r.exactSpan, int64(l.Per))
		}
	}
	if r.limits == nil {
		return nil
	}
	for i := range r.limits {
		r.byPer = append(r.byPer, i)
	}
	slices.SortFunc(r.byPer, func(i, j int) int { return cmp.Compare(r.limits[i].Per, r.limits[j].Per) })
	r.tick += r.exactSpan >> windowBits
	r.layout = newLayout(r, demand{})
	return r
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
		if o.Per == l.Per && o.Shadow == l.Shadow {
			return fmt.Errorf("is over %v, as limit %q is: the smaller of the two would be the limit", l.Per, o.Name)
		}
	}
	return nil
}

// Limits returns the limits in their order. They must not be modified.
func (p *Policy) Limits() []Limit { return p.limits }
