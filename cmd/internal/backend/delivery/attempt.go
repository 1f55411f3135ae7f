package delivery

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"opsgate/cmd/internal/backend/store/query"
)

// lifetime is how long a message is sent again. The last attempt is at its end.
const lifetime = 24 * time.Hour

// backOff returns the pause after an attempt, which is at least 1, without jitter.
func backOff(attempt int64) time.Duration {
	table := [...]time.Duration{
		5 * time.Second, 30 * time.Second, 2 * time.Minute, 10 * time.Minute, 30 * time.Minute, time.Hour, 2 * time.Hour,
		4 * time.Hour,
	}
	return table[min(attempt, int64(len(table)))-1]
}

// Outcomes of attempts; the first four are labels of the metric.
const (
	delivered = "delivered"
	failed    = "failed"
	dead      = "dead"
	removed   = "removed"
	// dropped: the delivery was no longer due, or the dispatcher stopped before the end of the
	// attempt.
	dropped = "dropped"
)

// A result is how an attempt ended.
type result struct {
	query.ListDueDeliveriesAnyTeamRow

	kind  string
	team  string
	cause string // why it failed
	next  int64  // time of the next attempt, for failed
}

var errPanic = errors.New("the sender panicked")

// attempt sends a due delivery once, and judges the result.
func (p *pool) attempt(ctx context.Context, due query.ListDueDeliveriesAnyTeamRow) result {
	r := result{ListDueDeliveriesAnyTeamRow: due, kind: dropped}
	row, m, err := p.load(ctx, due.Sequence)
	if err != nil {
		if !errors.Is(err, sql.ErrNoRows) && ctx.Err() == nil { // no row: the subscriber was removed meanwhile
			p.recurring.ErrorContext(ctx, "loading a delivery failed", "cause", err)
		}
		return r
	}
	r.team = row.Subscriber.TeamID
	traced, span := p.trace(ctx, row.Notification.Traceparent, m)
	defer span.End()
	err = p.send(traced, m)
	if err != nil && ctx.Err() != nil {
		return r // the dispatcher stopped: not the receiver's failure
	}
	r.kind, r.next = p.judge(row.Delivery, err)
	if err != nil {
		r.cause = err.Error()
		span.SetStatus(codes.Error, r.cause)
		p.log(ctx, r, m)
	}
	return r
}

// judge returns the outcome of an attempt of a delivery that ended with err.
func (p *pool) judge(row query.Delivery, err error) (kind string, next int64) {
	now, end := p.now(), row.CreatedAt+lifetime.Nanoseconds()
	switch {
	case err == nil:
		return delivered, 0
	case KindOf(err) == Gone:
		return removed, 0
	case KindOf(err) == Permanent, now >= end:
		return dead, 0
	}
	const jitter = 0.2
	pause := float64(backOff(row.Attempts+1)) * (1 - jitter + 2*jitter*p.options.Random())
	return failed, min(now+int64(pause), end)
}

// trace starts the span of an attempt in the trace of the request that caused the message.
func (p *pool) trace(ctx context.Context, traceparent string, m Message) (context.Context, trace.Span) {
	parent := propagation.TraceContext{}.Extract(ctx, propagation.MapCarrier{"traceparent": traceparent})
	return p.tracer.Start(parent, "deliver notification",
		trace.WithSpanKind(trace.SpanKindClient),
		trace.WithAttributes(
			attribute.String("delivery.id", m.ID),
			attribute.String("delivery.channel", p.channel),
			attribute.Int("delivery.attempt", m.Attempt),
		))
}

// send calls the sender. A panic is a failed attempt.
func (p *pool) send(ctx context.Context, m Message) (err error) {
	defer func() {
		if recover() != nil { // its value may contain an address
			p.options.Logger.ErrorContext(ctx, "a sender of deliveries panicked",
				"channel", p.channel, "delivery", m.ID, "stack", string(debug.Stack()))
			err = errPanic
		}
	}()
	return p.sender.Send(ctx, m)
}

// log writes a failed attempt. It never contains an address.
func (p *pool) log(ctx context.Context, r result, m Message) {
	attributes := []slog.Attr{
		slog.String("delivery", m.ID), slog.String("subscriber", m.Subscriber.ID), slog.String("channel", p.channel),
		slog.Int("attempt", m.Attempt), slog.String("cause", r.cause),
	}
	level, text := slog.LevelWarn, "an attempt to deliver a message failed"
	switch r.kind {
	case dead:
		level, text = slog.LevelError, "a message could not be delivered"
	case removed:
		text = "a receiver is gone: its subscriber is removed"
	default:
		attributes = append(attributes, slog.Time("next_attempt", time.Unix(0, r.next).UTC()))
	}
	p.options.Logger.LogAttrs(ctx, level, text, attributes...)
}

// load reads a delivery just before its attempt, so that it has the present secrets. Its message
// has only parts that never change, so it is the same at each attempt. It returns sql.ErrNoRows if
// the delivery is not due.
func (p *pool) load(ctx context.Context, sequence int64) (row query.GetDueDeliveryAnyTeamRow, m Message, err error) {
	err = p.data.Read(ctx, func(q *query.Queries) (err error) {
		if row, err = q.GetDueDeliveryAnyTeam(ctx, sequence); err != nil {
			return fmt.Errorf("get the delivery: %w", err)
		}
		i, u := row.Incident, row.IncidentUpdate
		m = Message{
			ID: row.Delivery.ID, Event: row.Notification.Event, CreatedAt: at(row.Notification.CreatedAt),
			Attempt: int(row.Delivery.Attempts) + 1,
			Subscriber: Subscriber{
				ID: row.Subscriber.ID, Address: row.Subscriber.Address, Secrets: validSecrets(row.Subscriber, p.now()),
			},
			Page: Page{ID: row.StatusPage.ID, Name: row.StatusPage.Name, Hostname: row.StatusPage.UniqueHostname,
				Slug: row.StatusPage.Slug},
			Incident: Incident{
				ID: i.ID, Title: i.Title, Impact: i.Impact, IsMaintenance: i.IsMaintenance, StartedAt: at(i.StartedAt),
			},
			Update: Update{ID: u.ID, Status: u.Status, Message: u.Message, CreatedAt: at(u.CreatedAt)},
		}
		components, err := q.ListAffectedComponents(ctx,
			query.ListAffectedComponentsParams{TeamID: i.TeamID, IncidentID: i.ID})
		if err != nil {
			return fmt.Errorf("list the affected components: %w", err)
		}
		for _, c := range components {
			m.Incident.Components = append(m.Incident.Components, Component(c))
		}
		return nil
	})
	return row, m, err
}

// validSecrets returns the keys of a webhook's signatures at a time, newest first: its secret, and
// until the end of a rotation the one before it. Emails have none.
func validSecrets(s query.Subscriber, now int64) (secrets [][]byte) {
	if s.Secret != nil {
		secrets = append(secrets, s.Secret)
	}
	if s.PreviousSecret != nil && s.PreviousSecretUntil != nil && now < *s.PreviousSecretUntil {
		secrets = append(secrets, s.PreviousSecret)
	}
	return secrets
}

func at(nanoseconds int64) time.Time { return time.Unix(0, nanoseconds).UTC() }
