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

var errPanic = errors.New("the sender panicked")

// attempt sends a claimed delivery once.
func (d *Dispatcher) attempt(ctx context.Context, c claim) {
	o := outcome{claim: c, kind: dropped}
	if l, err := d.load(ctx, c.Sequence); err == nil {
		o = d.try(ctx, c, l)
	} else if !errors.Is(err, sql.ErrNoRows) { // no row: the subscriber was removed meanwhile
		d.report(ctx, "loading a delivery failed", err)
	}
	d.outcomes <- o
	d.ended <- o
}

// try sends a message and judges the result.
func (d *Dispatcher) try(ctx context.Context, c claim, l loaded) outcome {
	traced, span := d.start(ctx, c, l)
	defer span.End()
	begin := d.options.Clock()
	err := d.send(traced, c.lane.channel, l.message)
	d.metrics.duration.WithLabelValues(c.lane.channel).Observe(d.options.Clock().Sub(begin).Seconds())
	if err != nil && ctx.Err() != nil {
		return outcome{claim: c, kind: dropped} // the dispatcher stopped: not the receiver's failure
	}
	o := outcome{claim: c, team: l.team, bounced: KindOf(err) == Bounced}
	o.kind, o.next = d.judge(l.delivery, err)
	if err != nil {
		o.cause = cut(err.Error())
		span.SetStatus(codes.Error, o.cause)
		if o.kind != postponed { // the scheduler logs the pause
			d.log(ctx, o, l.message)
		}
	}
	return o
}

// start starts the span of an attempt in the trace of the request that caused the message.
func (d *Dispatcher) start(ctx context.Context, c claim, l loaded) (context.Context, trace.Span) {
	parent := propagation.TraceContext{}.Extract(ctx, propagation.MapCarrier{"traceparent": l.traceparent})
	return d.tracer.Start(parent, "deliver notification",
		trace.WithSpanKind(trace.SpanKindClient),
		trace.WithAttributes(
			attribute.String("delivery.id", l.message.ID),
			attribute.String("delivery.channel", c.lane.channel),
			attribute.Int("delivery.attempt", l.message.Attempt),
		))
}

// send calls the sender. A panic is a failed attempt.
func (d *Dispatcher) send(ctx context.Context, channel string, m Message) (err error) {
	defer func() {
		if recover() != nil { // its value may contain an address
			d.options.Logger.ErrorContext(ctx, "a sender of deliveries panicked",
				"channel", channel, "delivery", m.ID, "stack", string(debug.Stack()))
			err = errPanic
		}
	}()
	return d.options.Senders[channel].Send(ctx, m)
}

// log writes a failed attempt. It never contains an address or a link.
func (d *Dispatcher) log(ctx context.Context, o outcome, m Message) {
	attributes := []slog.Attr{
		slog.String("delivery", m.ID), slog.String("subscriber", m.Subscriber.ID), slog.String("channel", o.claim.lane.channel),
		slog.Int("attempt", m.Attempt), slog.String("cause", o.cause),
	}
	if o.claim.Receiver != "" {
		attributes = append(attributes, slog.String("receiver", o.claim.Receiver))
	}
	level, text := slog.LevelWarn, "an attempt to deliver a message failed"
	switch {
	case o.kind == dead:
		level, text = slog.LevelError, "a message could not be delivered"
	case o.kind == removed:
		text = "a receiver is gone: its subscriber is removed"
	default:
		attributes = append(attributes, slog.Time("next_attempt", time.Unix(0, o.next).UTC()))
	}
	d.options.Logger.LogAttrs(ctx, level, text, attributes...)
}

// A loaded delivery has all that an attempt needs.
type loaded struct {
	delivery    query.Delivery
	message     Message
	team        string
	traceparent string
}

// load reads a delivery just before its attempt, so that it has the present secrets. It returns sql.ErrNoRows if the delivery is not due.
func (d *Dispatcher) load(ctx context.Context, sequence int64) (l loaded, err error) {
	err = d.store.Read(ctx, func(q *query.Queries) error {
		row, err := q.GetDueDeliveryAnyTeam(ctx, sequence)
		if err != nil {
			return fmt.Errorf("get the delivery: %w", err)
		}
		l = loaded{delivery: row.Delivery, team: row.Subscriber.TeamID}
		l.message = Message{
			ID: row.Delivery.ID, Event: ConfirmationRequested, CreatedAt: at(row.Subscriber.CreatedAt),
			Attempt: int(row.Delivery.Attempts) + 1, Subscriber: d.subscriber(row.Subscriber),
			Page: Page{ID: row.StatusPage.ID, Name: row.StatusPage.Name, Hostname: row.StatusPage.UniqueHostname, Slug: row.StatusPage.Slug},
		}
		if row.Delivery.NotificationID == nil {
			return nil
		}
		return l.addEvent(ctx, q, *row.Delivery.NotificationID)
	})
	return l, err
}

// addEvent adds the notification's incident and update. Only parts that never change are added, so each attempt has the same message.
func (l *loaded) addEvent(ctx context.Context, q *query.Queries, notification string) error {
	row, err := q.GetNotifiedEventAnyTeam(ctx, notification)
	if err != nil {
		return fmt.Errorf("get the notification: %w", err)
	}
	components, err := q.ListAffectedComponents(ctx, query.ListAffectedComponentsParams{
		TeamID: row.Incident.TeamID, IncidentID: row.Incident.ID,
	})
	if err != nil {
		return fmt.Errorf("list the affected components: %w", err)
	}
	l.traceparent = row.Notification.Traceparent
	m := &l.message
	m.Event, m.CreatedAt = row.Notification.Event, at(row.Notification.CreatedAt)
	m.Incident = Incident{
		ID: row.Incident.ID, Title: row.Incident.Title, Impact: row.Incident.Impact,
		IsMaintenance: row.Incident.IsMaintenance, StartedAt: at(row.Incident.StartedAt),
	}
	for _, c := range components {
		m.Incident.Components = append(m.Incident.Components, Component(c))
	}
	u := row.IncidentUpdate
	m.Update = Update{ID: u.ID, Status: u.Status, Message: u.Message, CreatedAt: at(u.CreatedAt)}
	return nil
}

func (d *Dispatcher) subscriber(row query.Subscriber) Subscriber {
	return Subscriber{
		ID: row.ID, Address: row.Address, LinkToken: row.LinkToken,
		Secrets: validSecrets(row.Secret, row.PreviousSecret, row.PreviousSecretUntil, d.now()),
	}
}

// validSecrets returns the keys of a webhook's signatures at a time, newest first: its secret, and until the end of a rotation the one
// before it. Emails have none.
func validSecrets(secret, previous []byte, until *int64, now int64) (secrets [][]byte) {
	if secret != nil {
		secrets = append(secrets, secret)
	}
	if previous != nil && until != nil && now < *until {
		secrets = append(secrets, previous)
	}
	return secrets
}

func at(nanoseconds int64) time.Time { return time.Unix(0, nanoseconds).UTC() }
