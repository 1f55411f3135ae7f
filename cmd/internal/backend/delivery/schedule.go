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

// A scheduler expands notifications and starts the attempts of a dispatcher. Which deliveries are in progress is only in memory: after a
// restart they are sent again.
type scheduler struct {
	*Dispatcher
	lanes []*lane
	// claimed has the subscribers of all claims: no subscriber has two.
	claimed  map[string]struct{}
	turn     int // counts the turns of the lanes
	running  int
	quota    int // of attempts that may still start in this interval
	attempts sync.WaitGroup
	// step begins the next interval; idle is whether nothing started in the last one, so that the next waits for an event.
	step *time.Timer
	idle bool
	// wake is closed after a write of this process; expand is whether there may be a notification.
	wake   <-chan struct{}
	expand bool
}

// schedule expands notifications and sends due deliveries until ctx ends and all attempts have ended and their results are written.
// Attempts end when work does.
func (d *Dispatcher) schedule(ctx, work context.Context) {
	s := &scheduler{Dispatcher: d, claimed: map[string]struct{}{}, step: time.NewTimer(0), wake: d.options.Wake(), expand: true}
	defer s.step.Stop()
	for channel := range d.options.Senders {
		s.lanes = append(s.lanes, lanesOf(channel)...)
	}
	attempts, cancel := context.WithCancel(work)
	defer cancel()
	poll := time.NewTicker(pollInterval)
	defer poll.Stop()
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-s.step.C:
			s.run(ctx, attempts)
		case <-poll.C:
			s.expand = true
			s.resume()
		case <-s.wake:
			s.wake = d.options.Wake() // before the query, so that no notification after it is missed
			s.expand = true
			s.resume()
		case o := <-d.ended:
			if s.end(o); !s.idle {
				s.start(attempts) // another delivery may use the slot
			}
			s.resume()
		case batch := <-d.released:
			s.release(batch)
			s.resume()
		}
	}
	s.drain(cancel)
}

// run is an interval: it expands a part of a notification, reads what is due, and starts attempts.
func (s *scheduler) run(ctx, attempts context.Context) {
	s.step.Reset(paceInterval)
	expanded := s.expand && s.expandNext(ctx)
	if err := s.read(ctx); err != nil {
		s.report(ctx, "looking for due deliveries failed", err)
	}
	s.quota = paceBatch
	if s.idle = !s.start(attempts) && !expanded; s.idle {
		s.step.Stop()
	}
}

// resume begins an interval at once, if nothing started in the last one.
func (s *scheduler) resume() {
	if s.idle {
		s.idle = false
		s.step.Reset(0)
	}
}

// report logs a failure of the database, unless the dispatcher stops.
func (d *Dispatcher) report(ctx context.Context, text string, err error) {
	if ctx.Err() == nil {
		d.recurring.ErrorContext(ctx, text, "cause", err)
	}
}

// expandNext expands a part of the next notification. It returns false if there is none, or if that failed: until the next poll.
func (s *scheduler) expandNext(ctx context.Context) bool {
	found, err := s.expandBatch(ctx)
	if err != nil {
		s.report(ctx, "expanding a notification into deliveries failed", err)
	}
	s.expand = found && err == nil
	return s.expand
}

// read reads as many due deliveries of each lane as can start in an interval.
func (s *scheduler) read(ctx context.Context) error {
	now := s.now()
	return s.store.Read(ctx, func(q *query.Queries) error {
		for _, l := range s.lanes {
			if l.due = nil; !l.free(now) {
				continue
			}
			repeated := int64(0)
			if l.repeated {
				repeated = 1
			}
			rows, err := q.ListDueDeliveriesAnyTeam(ctx, query.ListDueDeliveriesAnyTeamParams{
				Channel: l.channel, Repeated: repeated, Now: &now, Skipped: l.full(),
				PageSize: int64(l.claims + paceBatch), // claimed deliveries are still due in the table
			})
			if err != nil {
				return fmt.Errorf("list the due deliveries: %w", err)
			}
			for _, row := range rows {
				if _, ok := s.claimed[row.SubscriberID]; !ok {
					l.due = append(l.due, row)
				}
			}
		}
		return nil
	})
}

// start starts attempts as slots and the quota allow, and reports whether there was one. The lanes take turns, so that none uses the whole
// quota while another has work.
func (s *scheduler) start(attempts context.Context) (started bool) {
	now := s.now()
	for idle := 0; idle < len(s.lanes) && s.quota > 0; s.turn++ {
		c, ok := s.lanes[s.turn%len(s.lanes)].next(now)
		if !ok {
			idle++
			continue
		}
		idle, started = 0, true
		s.claimed[c.SubscriberID] = struct{}{}
		s.quota--
		s.running++
		s.attempts.Go(func() { s.attempt(attempts, c) })
	}
	return started
}

// end returns the slot of an attempt. A relay that failed begins a pause.
func (s *scheduler) end(o outcome) {
	o.claim.lane.end(o.claim)
	s.running--
	if pause := o.claim.lane.relay.record(o.kind, s.now()); pause > 0 {
		s.options.Logger.Error("the relay of a channel fails: its messages wait, and none is counted as an attempt",
			"channel", o.claim.lane.channel, "cause", o.cause, "pause", pause.String())
	}
}

// release ends claims whose results are stored. The next deliveries of their subscribers may be due.
func (s *scheduler) release(batch []outcome) {
	for _, o := range batch {
		o.claim.lane.claims--
		delete(s.claimed, o.claim.SubscriberID)
	}
}

// drain waits until all attempts have ended and their results are written. It starts none.
func (s *scheduler) drain(cancel context.CancelFunc) {
	attempts, writes := time.AfterFunc(grace, cancel), time.AfterFunc(grace+lastWrites, s.abandon)
	defer attempts.Stop()
	defer writes.Stop()
	for s.running > 0 {
		select {
		case o := <-s.ended:
			s.end(o)
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
