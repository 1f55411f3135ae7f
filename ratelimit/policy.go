package ratelimit

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"
)

const (
	// MaxLimits is the maximum number of limits of a policy.
	MaxLimits = 4
	// MaxExact is the maximum of requests of a limit that is decided by the times of its
	// admissions.
	MaxExact = 64

	maxRequests = 1_000_000_000
	minPer      = time.Millisecond
	maxPer      = 31 * 24 * time.Hour
)

// A Limit admits Requests in any interval of length Per. An admission at t counts until t+Per,
// exclusive. A limit of 0 requests blocks: see [Policy.Blocked].
type Limit struct {
	Name     string
	Requests int
	Per      time.Duration
	// A limit in shadow never denies. A decision reports whether it would have.
	Shadow bool
}

// A Policy is a list of limits. A request must be admitted by each enforced one. It is immutable.
type Policy struct {
	limits  []Limit
	rules   []rule
	encoded []byte
	longest int64 // length, µs
	blocks  int   // index of the longest limit of 0 requests; -1 for none
}

// NewPolicy validates the limits and returns their policy. There must be 1 to [MaxLimits] limits,
// at least one of them enforced. Names must differ, and so must the lengths of enforced limits, and
// the lengths of limits in shadow. A limit in shadow must admit requests: with 0, what it would deny
// is every request, which needs no trial.
func NewPolicy(limits []Limit) (*Policy, error) {
	if len(limits) < 1 || len(limits) > MaxLimits {
		return nil, fmt.Errorf("a policy has 1 to %d limits, not %d", MaxLimits, len(limits))
	}
	p := &Policy{limits: slices.Clone(limits), blocks: -1}
	var errs []error
	for i, l := range p.limits {
		if err := l.check(p.limits[:i]); err != nil {
			errs = append(errs, fmt.Errorf("limit %q: %w", l.Name, err))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	if !slices.ContainsFunc(p.limits, func(l Limit) bool { return !l.Shadow }) {
		return nil, errors.New("every limit is in shadow: at least one must be enforced")
	}
	for i, l := range p.limits {
		if l.Requests == 0 && (p.blocks < 0 || l.Per > p.limits[p.blocks].Per) {
			p.blocks = i
		}
		r := rule{shape{micros(l.Per), l.Requests <= MaxExact}, int64(l.Requests), l.Shadow}
		p.rules = append(p.rules, r)
		p.encoded = binary.LittleEndian.AppendUint32(p.encoded, uint32(l.Requests))
		p.encoded = binary.LittleEndian.AppendUint64(p.encoded, uint64(r.length))
		p.encoded, _ = binary.Append(p.encoded, binary.LittleEndian, l.Shadow) // 1 byte, 0 or 1; it cannot fail
		p.longest = max(p.longest, r.length)
	}
	return p, nil
}

func (l Limit) check(others []Limit) error {
	switch {
	case l.Name == "":
		return errors.New("has no name")
	case l.Requests < 0 || l.Requests > maxRequests:
		return fmt.Errorf("requests must be 0 to %d, not %d", maxRequests, l.Requests)
	case l.Requests == 0 && l.Shadow:
		return errors.New("is in shadow with 0 requests, which would deny every request")
	case l.Per < minPer || l.Per > maxPer:
		return fmt.Errorf("per must be %v to %v, not %v", minPer, maxPer, l.Per)
	}
	for _, o := range others {
		if o.Name == l.Name {
			return errors.New("has the name of another limit")
		}
		if o.Per == l.Per && o.Shadow == l.Shadow {
			return fmt.Errorf("has the same length %v as limit %q: only the smaller of the two would have an effect", l.Per,
				o.Name)
		}
	}
	return nil
}

// Limits returns the limits in their order. They must not be modified.
func (p *Policy) Limits() []Limit { return p.limits }

// Blocked returns the denial at a time of a policy that has a limit of 0 requests, which denies every
// request. It depends on no account, so stores return it without one. RetryAfter is the length of
// that limit, although a later request is denied too.
func (p *Policy) Blocked(at time.Time) (d Decision, blocked bool) {
	if p.blocks < 0 {
		return Decision{}, false
	}
	wait := p.limits[p.blocks].Per
	d = Decision{DeniedBy: p.blocks, ShadowDeniedBy: -1, RetryAfter: wait, At: at}
	for i := range p.limits {
		d.Budgets[i].Reset = wait // nothing remains of any limit
	}
	return d, true
}

// Encoded returns the limits as redisstore's script decodes them. It must not be modified.
func (p *Policy) Encoded() []byte { return p.encoded }
