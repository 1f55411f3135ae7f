package failover

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"opsgate/ratelimit"
)

// tellAgain is after how long the shared store is told of a token again: as that failed, or of what was admitted since.
const tellAgain = 100 * time.Millisecond

var (
	errReturning = errors.New("the shared store is back, and not all tokens are")
	errUnsettled = errors.New("the shared store was told of the token a moment ago, or could not be")
)

// settle has the shared store know what it may not know of the token. It returns why the shared store is not to decide on it now.
func (s *Store) settle(ctx context.Context, r request, ph *phase) error {
	switch {
	case ph.way == away:
		return ph.cause
	case s.tokens.settled(r.tokenID, ph):
		return nil
	case ph.gradual && !s.isBack(r.tokenID, ph, 0):
		return errReturning
	}
	t := s.tokens.await(r.tokenID)
	defer t.mu.Unlock()
	switch now := s.clock(); {
	case t.settled.Load() >= ph.outage:
		return nil // another request did it
	case now.Before(t.again):
		return errUnsettled
	default:
		return s.bring(ctx, r, t, ph)
	}
}

// bring takes a token that is held to the shared store. After an outage that takes two steps: first the shared store is told of it,
// and only when every other gateway has had the time to tell as well, it decides. Else it would admit what others have admitted. What
// is admitted here meanwhile it is told of, too: for others it may decide already.
func (s *Store) bring(ctx context.Context, r request, t *token, ph *phase) error {
	if ph.gradual && !s.isBack(r.tokenID, ph, s.configured.Load().others()) {
		if t.announced >= ph.outage && len(s.owed.Spent(r.tokenID)) == 0 {
			return errReturning
		}
		if _, err := s.tell(ctx, r, t, ph); err != nil {
			return err
		}
		t.announced = ph.outage
		t.again = s.clock().Add(tellAgain)
		return errReturning
	}
	all, err := s.tell(ctx, r, t, ph)
	if err != nil || !all {
		return err
	}
	t.settled.Store(ph.outage)
	return s.drop(ctx, r.tokenID, t)
}

// isBack says whether the token is among those that have gone back to the shared store, or so much earlier had.
func (s *Store) isBack(tokenID string, ph *phase, earlier time.Duration) bool {
	const places = 1024
	over := s.configured.Load().ReturnOver
	return s.clock().Sub(ph.since)-earlier > over*time.Duration(place(tokenID)>>32%places)/places
}

// tell tells the shared store of a token that is held, and says whether that was all there is to tell. If it may have been told
// although that failed, what it was told is taken to be known there from now on: told of once more, it would count twice if it was,
// and as told it counts again only if it is lost.
func (s *Store) tell(ctx context.Context, r request, t *token, ph *phase) (all bool, err error) {
	s.told.Store(true)
	before, during := s.before(r.tokenID, t, ph), s.owed.Spent(r.tokenID)
	if len(before)+len(during) == 0 {
		return true, nil
	}
	ctx = context.WithoutCancel(ctx) // whether this arrives matters to more than one request
	t.whileTelling(func() {
		_, err = s.call(ctx, func() (ratelimit.Decision, error) {
			return ratelimit.Decision{}, s.shared.Settle(ctx, r.tokenID, r.policy, before, during)
		})
	})
	if (err == nil || mayHaveArrived(err)) && len(during) > 0 {
		s.mirror.Seed(r.tokenID, r.policy, inOrder(before, during))
		t.heard = s.clock()
		_ = s.owed.Reset(ctx, r.tokenID) // memory does not fail
	}
	late := t.late
	t.late = nil
	for _, a := range late {
		s.spend(ctx, t, a)
	}
	if err != nil {
		t.again = s.clock().Add(tellAgain)
		return false, err
	}
	s.metrics.settled.Inc()
	return len(late) == 0, nil // of these it is told the next time
}

// before returns what the shared store knew of a token when it was last heard of it. The mirror's buckets may take that to be younger.
func (s *Store) before(tokenID string, t *token, ph *phase) []ratelimit.Spending {
	heard, now := ph.began, s.clock()
	if t.heard.After(heard) {
		heard = t.heard
	}
	spent := s.mirror.Spent(tokenID)
	if heard.IsZero() {
		return spent
	}
	for i := range spent {
		spent[i].Age = max(spent[i].Age, now.Sub(heard))
	}
	return spent
}

// inOrder returns all of both, newest first.
func inOrder(before, during []ratelimit.Spending) []ratelimit.Spending {
	all := slices.Concat(during, before)
	slices.SortStableFunc(all, func(x, y ratelimit.Spending) int { return cmp.Compare(x.Age, y.Age) })
	return all
}

// Sweep forgets tokens at rest now, and of which of the others it is known that they are settled, once all are.
func (s *Store) Sweep() {
	s.mirror.Sweep()
	ph := s.phase.Load()
	local, settled := 0, 0
	s.tokens.each(func(tokenID string, t *token) bool {
		if t.telling != nil {
			local++
			return true
		}
		if t.local && len(s.local.Spent(tokenID)) == 0 { // and so nothing is owed
			_ = s.drop(context.Background(), tokenID, t) // memory does not fail
		}
		switch {
		case t.local:
			local++
			return true
		case ph.way == doubtful && t.settled.Load() >= ph.outage && s.mirror.Knows(tokenID):
			settled++
			return true
		default:
			return false // nothing to tell, or all of it
		}
	})
	if local > 0 || ph.way != owing && (ph.way != doubtful || settled < s.mirror.Len()) {
		return
	}
	s.turn(func(now phase) phase {
		if now == *ph {
			now.way = certain
		}
		return now
	})
	s.tokens.each(func(_ string, t *token) bool {
		if t.local { // since it was looked at
			s.owe()
		}
		return true
	})
}
