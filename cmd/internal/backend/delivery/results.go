package delivery

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"opsgate/cmd/internal/backend/audit"
	"opsgate/cmd/internal/backend/store/query"
)

const (
	// resultBatch and resultDelay bound how many results one transaction writes, and how long a result waits for others.
	resultBatch = 100
	resultDelay = 100 * time.Millisecond
	// writeRetry is the pause after a transaction that failed.
	writeRetry = time.Second
	// lifetime is how long a message is sent again. The last attempt is at its end.
	lifetime = 24 * time.Hour
	// maxBounces is the number of hard bounces in a row that stops a subscriber.
	maxBounces = 3
	// maxError is the number of characters of a stored error.
	maxError = 300
)

// Action types in the audit log.
const (
	subscriberRemoved = "subscriber.removed"
	subscriberStopped = "subscriber.stopped"
)

// backOff returns the pause after an attempt, which is at least 1, without jitter.
func backOff(attempt int64) time.Duration {
	table := [...]time.Duration{
		5 * time.Second, 30 * time.Second, 2 * time.Minute, 10 * time.Minute, 30 * time.Minute, time.Hour, 2 * time.Hour, 4 * time.Hour,
	}
	return table[min(attempt, int64(len(table)))-1]
}

// Outcomes of attempts; the first four are labels of the metric.
const (
	delivered = "delivered"
	failed    = "failed"
	dead      = "dead"
	removed   = "removed"
	// postponed: the relay of the channel failed.
	postponed = "postponed"
	// dropped: the delivery was no longer due, or the dispatcher stopped before the end of the attempt.
	dropped = "dropped"
)

// An outcome is the result of an attempt.
type outcome struct {
	claim claim
	kind  string
	team  string
	cause string // why it failed
	next  int64  // time of the next attempt, for failed

	bounced bool // the receiver does not exist
}

// judge returns the outcome of an attempt of a delivery that ended with err.
func (d *Dispatcher) judge(row query.Delivery, err error) (kind string, next int64) {
	now, end := d.now(), row.CreatedAt+lifetime.Nanoseconds()
	switch {
	case err == nil:
		return delivered, 0
	case KindOf(err) == Gone:
		return removed, 0
	case KindOf(err) == Relay:
		return postponed, 0
	case KindOf(err) == Permanent, KindOf(err) == Bounced, now >= end:
		return dead, 0
	}
	const jitter = 0.2
	pause := float64(backOff(row.Attempts+1)) * (1 - jitter + 2*jitter*d.options.Random())
	return failed, min(now+int64(pause), end)
}

// cut returns valid text of at most maxError characters.
func cut(text string) string {
	text = strings.ToValidUTF8(text, "\uFFFD")
	if utf8.RuneCountInString(text) <= maxError {
		return text
	}
	return string([]rune(text)[:maxError])
}

// writeResults writes outcomes in batches, until the channel is closed. A batch whose transaction fails is tried again until ctx ends.
func (d *Dispatcher) writeResults(ctx context.Context) {
	defer close(d.released)
	for first := range d.outcomes {
		batch := d.collect(first)
		for ctx.Err() == nil {
			err := d.write(ctx, batch)
			if err == nil {
				d.count(batch)
				break
			}
			d.recurring.ErrorContext(ctx, "writing the results of deliveries failed", "cause", err) // at the end too: they are lost
			select {
			case <-ctx.Done():
			case <-time.After(writeRetry):
			}
		}
		d.released <- batch
	}
}

// collect returns the outcomes that arrive shortly after the first.
func (d *Dispatcher) collect(first outcome) []outcome {
	batch := []outcome{first}
	timeout := time.NewTimer(resultDelay)
	defer timeout.Stop()
	for len(batch) < resultBatch {
		select {
		case o, ok := <-d.outcomes:
			if !ok {
				return batch
			}
			batch = append(batch, o)
		case <-timeout.C:
			return batch
		}
	}
	return batch
}

func (d *Dispatcher) count(batch []outcome) {
	for _, o := range batch {
		if o.kind != dropped && o.kind != postponed {
			d.metrics.total.WithLabelValues(o.claim.lane.channel, o.kind).Inc()
		}
	}
}

// write writes the outcomes in one transaction.
func (d *Dispatcher) write(ctx context.Context, batch []outcome) error {
	return d.store.Write(ctx, func(q *query.Queries) error {
		now := d.now()
		for i := range batch {
			if err := d.writeOne(ctx, q, &batch[i], now); err != nil {
				return err
			}
		}
		return nil
	})
}

func (d *Dispatcher) writeOne(ctx context.Context, q *query.Queries, o *outcome, now int64) error {
	switch o.kind {
	case failed:
		err := q.SetDeliveryFailedAnyTeam(ctx, query.SetDeliveryFailedAnyTeamParams{
			Sequence: o.claim.Sequence, LastError: o.cause, DueAt: &o.next,
		})
		if err != nil {
			return fmt.Errorf("write a failed attempt: %w", err)
		}
		return nil
	case delivered, dead:
		return d.finish(ctx, q, o, now)
	case removed:
		return RemoveSubscriber(ctx, q, d.options.Clock, o.team, o.claim.SubscriberID, audit.Service())
	default:
		return nil
	}
}

// finish ends the attempts of a delivery, and makes the next one of the subscriber due.
func (d *Dispatcher) finish(ctx context.Context, q *query.Queries, o *outcome, now int64) error {
	err := q.SetDeliveryFinishedAnyTeam(ctx, query.SetDeliveryFinishedAnyTeamParams{
		Sequence: o.claim.Sequence, State: o.kind, LastError: o.cause, FinishedAt: &now,
	})
	if err != nil {
		return fmt.Errorf("write a finished delivery: %w", err)
	}
	err = q.SetNextDeliveryDueAnyTeam(ctx, query.SetNextDeliveryDueAnyTeamParams{SubscriberID: o.claim.SubscriberID, Now: &now})
	if err != nil {
		return fmt.Errorf("make the next delivery due: %w", err)
	}
	if o.claim.lane.channel != Email {
		return nil
	}
	return d.countBounce(ctx, q, o, now)
}

// countBounce counts hard bounces in a row. The last one stops the subscriber: it gets no further messages, also not those that wait.
func (d *Dispatcher) countBounce(ctx context.Context, q *query.Queries, o *outcome, now int64) error {
	id := o.claim.SubscriberID
	if o.kind == delivered {
		return q.ResetBouncesAnyTeam(ctx, id)
	}
	if !o.bounced {
		return nil
	}
	bounces, err := q.CountBounceAnyTeam(ctx, id)
	if errors.Is(err, sql.ErrNoRows) { // removed since
		return nil
	}
	if err != nil || bounces < maxBounces {
		return err
	}
	at, err := audit.TimeOfWrite(ctx, q, d.options.Clock, o.team)
	if err != nil {
		return err
	}
	note := cut(fmt.Sprintf("stopped after %d hard bounces: %s", bounces, o.cause))
	stopped, err := q.StopSubscriberAnyTeam(ctx, query.StopSubscriberAnyTeamParams{ID: id, StoppedAt: &at, Note: note})
	if err != nil || stopped == 0 {
		return err
	}
	err = q.EndWaitingDeliveriesAnyTeam(ctx, query.EndWaitingDeliveriesAnyTeamParams{SubscriberID: id, Now: &now, LastError: note})
	if err != nil {
		return fmt.Errorf("end the waiting deliveries: %w", err)
	}
	d.options.Logger.WarnContext(ctx, "a subscriber is stopped, because its mailbox does not exist", "subscriber", id, "cause", o.cause)
	return audit.Service().Action(o.team, subscriberStopped, id, at).Record(ctx, q)
}

// RemoveSubscriber deletes a subscriber of the team with its deliveries, and writes the audit entry of the actor. It does nothing if there
// is no such subscriber.
func RemoveSubscriber(ctx context.Context, q *query.Queries, clock func() time.Time, team, id string, actor audit.Actor) error {
	deleted, err := q.DeleteSubscriberAnyTeam(ctx, id)
	if err != nil {
		return fmt.Errorf("delete subscriber %s: %w", id, err)
	}
	if deleted == 0 {
		return nil
	}
	return actor.Record(ctx, q, clock, team, subscriberRemoved, id)
}
