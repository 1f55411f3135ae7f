package delivery

import (
	"context"
	"fmt"
	"time"

	"opsgate/cmd/internal/backend/audit"
	"opsgate/cmd/internal/backend/store/query"
)

// Channels of subscribers.
const (
	Email   = "email"
	Webhook = "webhook"
)

// workers is the number of attempts of a channel that run at once.
func workers(channel string) int {
	if channel == Email {
		return 8 // connections to one server
	}
	return 64
}

const (
	// pollInterval is how often a pool looks for work of other processes, and for deliveries whose
	// time has come.
	pollInterval = time.Second
	// resultBatch and resultDelay bound how many results one transaction writes, and how long a
	// result waits for others.
	resultBatch = 100
	resultDelay = 25 * time.Millisecond
	// writeRetry is the pause after a transaction that failed.
	writeRetry = time.Second
)

// A pool sends the deliveries of one channel. Which of them are in progress is only in memory:
// after a restart they are sent again.
type pool struct {
	*Dispatcher

	channel string
	sender  Sender
	running int // attempts
	// busy has the subscribers with an attempt that runs, or whose result is not stored.
	busy    map[string]struct{}
	results chan result
}

func (d *Dispatcher) newPool(channel string, sender Sender) *pool {
	return &pool{
		Dispatcher: d, channel: channel, sender: sender,
		busy: map[string]struct{}{}, results: make(chan result, workers(channel)),
	}
}

// run sends due deliveries until ctx ends, and returns when all attempts have ended and their
// results are stored. It waits for attempts for the grace period; the end of work ends all at once.
func (p *pool) run(ctx, work context.Context) {
	attempts, cancel := context.WithCancel(work)
	defer cancel()
	poll := time.NewTicker(pollInterval)
	defer poll.Stop()
	for ctx.Err() == nil {
		wake := p.options.Wake() // before the query, so that no delivery after it is missed
		if err := p.start(ctx, attempts); err != nil && ctx.Err() == nil {
			p.recurring.ErrorContext(ctx, "looking for due deliveries failed", "cause", err)
		}
		select {
		case <-ctx.Done():
		case <-wake:
		case <-poll.C:
		case r := <-p.results:
			p.store(work, p.collect(r))
		}
	}
	defer time.AfterFunc(grace, cancel).Stop()
	for p.running > 0 {
		p.store(work, p.collect(<-p.results))
	}
}

// start starts as many due attempts as there are free workers. First attempts come before repeated
// ones, so that receivers that fail or hang do not delay the others.
func (p *pool) start(ctx, attempts context.Context) error {
	now := p.now()
	for repeated := range int64(2) {
		free := workers(p.channel) - p.running
		if free == 0 {
			return nil
		}
		var due []query.ListDueDeliveriesAnyTeamRow
		err := p.data.Read(ctx, func(q *query.Queries) (err error) {
			due, err = q.ListDueDeliveriesAnyTeam(ctx, query.ListDueDeliveriesAnyTeamParams{
				Channel: p.channel, Repeated: repeated, Now: &now,
				PageSize: int64(free + len(p.busy)), // those of busy subscribers are still due in the table
			})
			return err
		})
		if err != nil {
			return err
		}
		for _, row := range due {
			if _, ok := p.busy[row.SubscriberID]; ok || p.running == workers(p.channel) {
				continue
			}
			p.busy[row.SubscriberID] = struct{}{}
			p.running++
			go func() { p.results <- p.attempt(attempts, row) }()
		}
	}
	return nil
}

// collect returns the results that arrive shortly after the first, whose workers are free.
func (p *pool) collect(first result) []result {
	batch := []result{first}
	timeout := time.NewTimer(resultDelay)
	defer timeout.Stop()
	for waiting := true; waiting && len(batch) < min(resultBatch, p.running); {
		select {
		case r := <-p.results:
			batch = append(batch, r)
		case <-timeout.C:
			waiting = false
		}
	}
	p.running -= len(batch)
	return batch
}

// store writes results in one transaction, and repeats it until it succeeds or ctx ends. Then the
// next deliveries of the subscribers may start.
func (p *pool) store(ctx context.Context, batch []result) {
	for ctx.Err() == nil {
		err := p.data.Write(ctx, func(q *query.Queries) error {
			for _, r := range batch {
				if err := p.write(ctx, q, r); err != nil {
					return err
				}
			}
			return nil
		})
		if err == nil {
			break
		}
		// at the end too: they are lost
		p.recurring.ErrorContext(ctx, "writing the results of deliveries failed", "cause", err)
		select {
		case <-ctx.Done():
			return
		case <-time.After(writeRetry):
		}
	}
	for _, r := range batch {
		delete(p.busy, r.SubscriberID)
		if r.kind != dropped {
			p.attempts.WithLabelValues(p.channel, r.kind).Inc()
		}
	}
}

func (p *pool) write(ctx context.Context, q *query.Queries, r result) error {
	switch r.kind {
	case failed:
		err := q.SetDeliveryFailedAnyTeam(ctx, query.SetDeliveryFailedAnyTeamParams{
			Sequence: r.Sequence, LastError: r.cause, DueAt: &r.next,
		})
		if err != nil {
			return fmt.Errorf("write a failed attempt: %w", err)
		}
	case delivered, dead:
		now := p.now()
		err := q.SetDeliveryFinishedAnyTeam(ctx, query.SetDeliveryFinishedAnyTeamParams{
			Sequence: r.Sequence, State: r.kind, LastError: r.cause, FinishedAt: &now,
		})
		if err != nil {
			return fmt.Errorf("write a finished delivery: %w", err)
		}
		err = q.SetNextDeliveryDueAnyTeam(ctx, query.SetNextDeliveryDueAnyTeamParams{SubscriberID: r.SubscriberID, Now: &now})
		if err != nil {
			return fmt.Errorf("make the next delivery due: %w", err)
		}
	case removed:
		return RemoveSubscriber(ctx, q, p.options.Clock, r.team, r.SubscriberID, audit.Service())
	}
	return nil
}

// RemoveSubscriber deletes a subscriber of the team with its deliveries, and writes the audit entry
// of the actor. It does nothing if there is no such subscriber.
func RemoveSubscriber(
	ctx context.Context, q *query.Queries, clock func() time.Time, team, id string, actor audit.Actor,
) error {
	deleted, err := q.DeleteSubscriberAnyTeam(ctx, id)
	if err != nil {
		return fmt.Errorf("delete subscriber %s: %w", id, err)
	}
	if deleted == 0 {
		return nil
	}
	return actor.Record(ctx, q, clock, team, "subscriber.removed", id)
}
