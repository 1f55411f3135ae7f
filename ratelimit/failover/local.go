package failover

import (
	"context"
	"errors"

	"opsgate/ratelimit"
)

// decide answers a request that the shared store did not, for that cause, though it may have counted it.
func (s *Store) decide(r request, cause error, counted bool) (ratelimit.Decision, error) {
	switch c := s.configured.Load(); c.Mode {
	case Deny:
		return ratelimit.Decision{}, s.unavailable(cause)
	case Allow:
		return s.admit(r.policy), nil
	default:
		return s.decideHere(r, c, counted)
	}
}

// admit returns the decision on a request that is not counted.
func (s *Store) admit(p *ratelimit.Policy) ratelimit.Decision {
	d := ratelimit.Decision{Allowed: true, Denied: -1, Shadowed: -1, At: s.clock(), Local: true}
	for i, l := range p.Limits() {
		d.Budgets[i].Remaining = l.Requests
	}
	return d
}

// decideHere decides by this process' share of the policy.
func (s *Store) decideHere(r request, c *configured, counted bool) (ratelimit.Decision, error) {
	share := c.shareOf(r.policy)
	d, err := s.decideByShare(r, c, share, counted)
	if err != nil {
		return d, err
	}
	s.owe()
	return whole(d, r.policy, share), nil
}

func (s *Store) decideByShare(r request, c *configured, share *ratelimit.Policy, counted bool) (ratelimit.Decision, error) {
	t := s.tokens.hold(r.tokenID)
	defer t.mu.Unlock()
	if !t.local {
		s.local.Seed(r.tokenID, share, divided(s.mirror.Spent(r.tokenID), c.Replicas))
		t.local, t.heard = true, s.clock()
		t.settled.Store(0)
	}
	ctx := context.Background() // nobody waits
	d, err := request{tokenID: r.tokenID, policy: share, peek: r.peek}.ask(ctx, s.local)
	switch a := (admission{r, d, counted}); {
	case err != nil || !d.Allowed || r.peek:
	case t.telling != nil:
		t.late = append(t.late, a)
	default:
		s.spend(ctx, t, a)
	}
	return d, err
}

// spend has an admission of a token that is held be told to the shared store, or if that may have counted it, be told as of what it
// knew: once is enough.
func (s *Store) spend(ctx context.Context, t *token, a admission) {
	if a.counted {
		t.heard = s.clock()
		_, _ = s.mirror.Decide(ctx, a.tokenID, a.policy) // where it knows of all that may be spent, there is nothing to add
		return
	}
	s.owed.Spend(a.tokenID, a.policy, a.Decision)
}

// divided returns the part of one of so many replicas in what was spent: of the newest n, n÷replicas, rounded down.
func divided(spent []ratelimit.Spending, replicas int) []ratelimit.Spending {
	part := make([]ratelimit.Spending, 0, len(spent))
	all, taken := 0, 0
	for _, sp := range spent {
		all += sp.N
		if n := all/replicas - taken; n > 0 {
			part = append(part, ratelimit.Spending{Age: sp.Age, N: n})
			taken += n
		}
	}
	return part
}

// whole returns a decision by a share of a policy as one by the policy.
func whole(d ratelimit.Decision, p, share *ratelimit.Policy) ratelimit.Decision {
	d.Local = true
	if d.Denied >= 0 {
		d.Denied = share.ShareOf(d.Denied)
	}
	if d.Shadowed >= 0 {
		d.Shadowed = share.ShareOf(d.Shadowed)
	}
	for i := len(p.Limits()); i < len(share.Limits()); i++ {
		if of := share.ShareOf(i); d.Budgets[i].Remaining < d.Budgets[of].Remaining {
			d.Budgets[of] = d.Budgets[i]
		}
		d.Budgets[i] = ratelimit.Budget{}
	}
	return d
}

var errSettled = errors.New("the shared store counts it now")

// refundHere gives back what this process admitted.
func (s *Store) refundHere(ctx context.Context, tokenID string, p *ratelimit.Policy, d ratelimit.Decision) error {
	t := s.tokens.hold(tokenID)
	defer t.mu.Unlock()
	if !t.local {
		return errSettled
	}
	return errors.Join(s.local.Refund(ctx, tokenID, p, d), s.owed.Refund(ctx, tokenID, p, d))
}

// forget forgets all that is known here of a token.
func (s *Store) forget(ctx context.Context, tokenID string) error {
	t := s.tokens.await(tokenID)
	defer t.mu.Unlock()
	return errors.Join(s.drop(ctx, tokenID, t), s.mirror.Reset(ctx, tokenID))
}

// drop drops the local account of a token.
func (s *Store) drop(ctx context.Context, tokenID string, t *token) error {
	t.local = false
	return errors.Join(s.local.Reset(ctx, tokenID), s.owed.Reset(ctx, tokenID))
}
