package demand

import (
	"context"
	"slices"
	"time"

	"opsgate/ratelimit"
)

// rounding is larger than the rounding errors of a sum of parts, and smaller than a part.
const rounding = 1e-9

// simulate decides the requests of the class under its limits and returns the sum of the denied part of each token, without the largest
// ones. It stops when that is more than most. If tokens is not nil, it adds those with denied requests.
func (c *class) simulate(most float64, tokens *[]DeniedToken) (denied float64, err error) {
	policy, err := ratelimit.NewPolicy(c.Limits)
	if err != nil {
		return 0, err
	}
	s := simulation{policy: policy, now: storeStart()}
	s.store = ratelimit.NewMemory(func() time.Time { return s.now })
	leftOut := make([]float64, c.leftOut()) // the largest parts so far, in ascending order
	for _, t := range c.subjects {
		n, err := s.run(t)
		if err != nil {
			return 0, err
		}
		part := float64(n) / float64(t.requests)
		if at, _ := slices.BinarySearch(leftOut, part); at > 0 {
			smallest := leftOut[0]
			copy(leftOut, leftOut[1:at])
			leftOut[at-1], part = part, smallest
		}
		if denied += part; denied > most+rounding {
			break
		}
		if n > 0 && tokens != nil {
			*tokens = append(*tokens, DeniedToken{TokenID: t.id, TeamID: t.team, Requests: t.requests, Denied: n})
		}
	}
	return denied, nil
}

// A simulation decides the requests of one token after the other.
type simulation struct {
	policy   *ratelimit.Policy
	store    *ratelimit.Memory
	now      time.Time // of the store
	admitted []bool    // by the index of the request's step
}

// run decides the requests of a token and returns the number of denied ones.
func (s *simulation) run(t *subject) (denied uint64, err error) {
	ctx := context.Background() // a memory store does not use it
	s.admitted = append(s.admitted[:0], make([]bool, len(t.steps))...)
	for i, step := range t.steps {
		s.now = time.UnixMicro(step.at)
		switch {
		case step.what == stepReset:
			err = s.store.Reset(ctx, t.id)
		case step.what >= 0:
			if s.admitted[step.what] {
				err = s.store.Refund(ctx, t.id, ratelimit.Decision{Allowed: true, At: time.UnixMicro(t.steps[step.what].at)})
			}
		default:
			var d ratelimit.Decision
			d, err = s.store.Decide(ctx, t.id, s.policy)
			if s.admitted[i] = d.Allowed; !d.Allowed {
				denied++
			}
		}
		if err != nil {
			return denied, err
		}
	}
	return denied, s.store.Reset(ctx, t.id) // to free its account
}
