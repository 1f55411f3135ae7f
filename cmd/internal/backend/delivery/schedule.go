package delivery

import (
	"context"
	"fmt"
	"sync"
	"time"

	"opsgate/cmd/internal/backend/store/query"
)

// At most paceBatch attempts start in paceInterval, which is 400 a second, so that a page with many subscribers does not delay the API.
const (
	paceBatch    = 10
	paceInterval = 25 * time.Millisecond
)

// A scheduler starts the attempts of a dispatcher. Which deliveries are in progress is only in memory: after a restart they are sent again.
type scheduler struct {
	*Dispatcher
	lanes []*lane
	// claimed has the subscribers of all claims: no subscriber has two.
	claimed  map[string]struct{}
	turn     int // counts the turns of the lanes
	running  int
	attempts sync.WaitGroup
	// quota is the number of attempts that may still start before refill, which is nil until the quota is used up.
	quota  int
	refill <-chan time.Time
}

// schedule sends due deliveries until ctx ends and all attempts have ended and their results are written. Attempts end when work does.
func (d *Dispatcher) schedule(ctx, work context.Context) {
	s := &scheduler{Dispatcher: d, claimed: map[string]struct{}{}, quota: paceBatch}
	for channel := range d.options.Senders {
		s.lanes = append(s.lanes, lanesOf(channel)...)
	}
	attempts, cancel := context.WithCancel(work)
	defer cancel()
	poll := time.NewTicker(pollInterval)
	defer poll.Stop()
	for ctx.Err() == nil {
		s.fill(ctx, attempts)
		select {
		case <-ctx.Done():
		case <-poll.C:
			s.refresh()
		case <-d.expanded:
			s.refresh()
		case <-s.refill:
			s.quota, s.refill = paceBatch, nil
		case c := <-d.ended:
			s.end(c)
		case batch := <-d.released:
			s.release(batch)
		}
	}
	s.drain(cancel)
}

// refresh makes the lanes look for due deliveries.
func (s *scheduler) refresh() {
	for _, l := range s.lanes {
		l.stale = true
	}
}

func (s *scheduler) end(c claim) {
	c.lane.end(c)
	s.running--
}

func (s *scheduler) release(batch []outcome) {
	for _, o := range batch {
		o.claim.lane.release(o.claim)
		delete(s.claimed, o.claim.subscriber)
		if o.unblocked {
			for _, l := range s.lanes { // the next delivery of the subscriber is due
				l.stale = l.stale || l.channel == o.claim.lane.channel
			}
		}
	}
}

// fill starts attempts as slots and the quota allow. The lanes take turns, so that none uses the whole quota while another has work.
func (s *scheduler) fill(ctx, attempts context.Context) {
	for idle := 0; idle < len(s.lanes) && s.quota > 0; s.turn++ {
		c, ok := s.next(ctx, s.lanes[s.turn%len(s.lanes)])
		if !ok {
			idle++
			continue
		}
		idle = 0
		s.quota--
		s.running++
		s.attempts.Go(func() { s.attempt(attempts, c) })
	}
	if s.quota == 0 && s.refill == nil {
		s.refill = time.After(paceInterval)
	}
}

// next returns the next delivery of a lane that can start now. It reads more from the database if the lane has a slot but no delivery.
func (s *scheduler) next(ctx context.Context, l *lane) (c claim, ok bool) {
	for {
		if c, ok := l.next(); ok || !l.wants() {
			return c, ok
		}
		if err := s.claim(ctx, l); err != nil {
			if ctx.Err() == nil {
				s.options.Logger.ErrorContext(ctx, "looking for due deliveries failed", "cause", err)
			}
			l.stale = false // until the next poll
			return claim{}, false
		}
	}
}

// claim reads the next due deliveries of a lane.
func (s *scheduler) claim(ctx context.Context, l *lane) error {
	claims, full := l.claims()
	size := int64(claims + claimBatch) // claimed deliveries are still due in the database
	now, repeated := s.now(), int64(0)
	if l.repeated {
		repeated = 1
	}
	var rows []query.ListDueDeliveriesAnyTeamRow
	err := s.store.Read(ctx, func(q *query.Queries) (err error) {
		rows, err = q.ListDueDeliveriesAnyTeam(ctx, query.ListDueDeliveriesAnyTeamParams{
			Channel: l.channel, Repeated: repeated, Now: &now, Skipped: full, PageSize: size,
		})
		return err
	})
	if err != nil {
		return fmt.Errorf("list the due deliveries: %w", err)
	}
	free := false
	for _, row := range rows {
		if _, ok := s.claimed[row.SubscriberID]; ok {
			continue
		}
		free = true
		c := claim{sequence: row.Sequence, subscriber: row.SubscriberID, receiver: row.Receiver, lane: l}
		if l.add(c) {
			s.claimed[c.subscriber] = struct{}{}
		}
	}
	l.stale = free && int64(len(rows)) == size
	return nil
}

// drain waits until all attempts have ended and their results are written. It starts none.
func (s *scheduler) drain(cancel context.CancelFunc) {
	attempts, writes := time.AfterFunc(grace, cancel), time.AfterFunc(grace+lastWrites, s.abandon)
	defer attempts.Stop()
	defer writes.Stop()
	for s.running > 0 {
		select {
		case c := <-s.ended:
			s.end(c)
		case batch := <-s.released:
			s.release(batch)
		}
	}
	s.attempts.Wait()
	close(s.outcomes)
	for batch := range s.released { // the writer closes it
		s.release(batch)
	}
}
