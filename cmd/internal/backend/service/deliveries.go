package service

import (
	"context"
	"fmt"
	"slices"
	"time"

	"opsgate/cmd/internal/backend/audit"
	"opsgate/cmd/internal/backend/store/query"
)

// States of a delivery.
const (
	stateWaiting = "waiting"
	stateDead    = "dead"
)

// A Delivery is one message to one subscriber.
type Delivery struct {
	ID, Event, SubscriberID, Channel string
	State                            string // waiting, delivered or dead
	Attempts                         int
	CreatedAt                        time.Time
	// DueAt is the time of the next attempt: zero while an earlier message of the subscriber waits,
	// and after the last attempt.
	DueAt      time.Time
	FinishedAt time.Time // zero while the delivery waits
	LastError  string
}

// DeliveryFilter selects deliveries. Its zero fields select all.
type DeliveryFilter struct {
	State, SubscriberID string
}

func (f DeliveryFilter) check(ctx context.Context, q *query.Queries) error {
	if f.SubscriberID == "" {
		return nil
	}
	_, err := findSubscriber(ctx, q, f.SubscriberID)
	return err
}

// ListDeliveries returns the newest deliveries first, and at most limit. An unknown subscriber is
// ErrNotFound.
func (b *Backend) ListDeliveries(
	ctx context.Context, filter DeliveryFilter, limit int,
) (deliveries []Delivery, err error) {
	err = b.store.Read(ctx, func(q *query.Queries) error {
		if err := filter.check(ctx, q); err != nil {
			return err
		}
		return list(&deliveries, "deliveries", deliveryOf)(q.ListDeliveriesAnyTeam(ctx, query.ListDeliveriesAnyTeamParams{
			State: filter.State, SubscriberID: filter.SubscriberID, PageSize: int64(limit),
		}))
	})
	return deliveries, err
}

// RetryDeliveries sends messages again, all or none of them. A dead letter becomes the last message
// of its subscriber, with the same id, no attempts and the present as its time of creation. A
// message that waits is due now, if no other of its subscriber is before it. Any other delivery is
// an error, and an unknown id is ErrNotFound.
func (b *Backend) RetryDeliveries(ctx context.Context, ids []string) error {
	return b.store.Write(ctx, func(q *query.Queries) error {
		for _, id := range ids {
			row, err := q.GetDeliveryAnyTeam(ctx, id)
			if err := orNotFound(err, "delivery", id); err != nil {
				return err
			}
			if err := b.retry(ctx, q, row); err != nil {
				return err
			}
		}
		return nil
	})
}

// RetryDeadLetters does the same with the present dead letters of all subscribers, or of one, in
// their order and in bounded transactions, and returns their number.
func (b *Backend) RetryDeadLetters(ctx context.Context, subscriber string) (retried int, err error) {
	var letters []string
	err = b.store.Read(ctx, func(q *query.Queries) (err error) {
		if err := (DeliveryFilter{SubscriberID: subscriber}).check(ctx, q); err != nil {
			return err
		}
		letters, err = q.ListDeadLettersAnyTeam(ctx, subscriber)
		return err
	})
	if err != nil {
		return 0, err
	}
	for batch := range slices.Chunk(letters, maintenanceBatch) {
		if err := b.RetryDeliveries(ctx, batch); err != nil {
			return retried, err
		}
		retried += len(batch)
	}
	return retried, nil
}

// retry sends a message again, with an audit entry.
func (b *Backend) retry(ctx context.Context, q *query.Queries, row query.Delivery) error {
	owner, err := q.GetSubscriberAnyTeam(ctx, row.SubscriberID)
	if err != nil {
		return fmt.Errorf("look for the subscriber: %w", err)
	}
	now := b.options.Clock().UnixNano()
	switch row.State {
	case stateDead:
		err = q.RetryDeliveryAnyTeam(ctx, query.RetryDeliveryAnyTeamParams{ID: row.ID, Now: now})
	case stateWaiting:
		err = makeDue(ctx, q, row, now)
	default:
		err = fmt.Errorf("it is %s: only dead letters and messages that wait can be retried", row.State)
	}
	if err != nil {
		return fmt.Errorf("retry delivery %s: %w", row.ID, err)
	}
	return audit.Service().Record(ctx, q, b.options.Clock, owner.TeamID, "delivery.retried", row.ID)
}

// makeDue makes the first waiting delivery of a subscriber due.
func makeDue(ctx context.Context, q *query.Queries, row query.Delivery, now int64) error {
	first, err := q.FirstWaitingDeliveryAnyTeam(ctx, row.SubscriberID)
	if err != nil {
		return fmt.Errorf("look for the first delivery of the subscriber: %w", err)
	}
	if first != row.ID {
		return fmt.Errorf("it waits for delivery %s of the same subscriber, which is sent before it: retry that one", first)
	}
	return q.SetDeliveryDueAnyTeam(ctx, query.SetDeliveryDueAnyTeamParams{DueAt: &now, ID: row.ID})
}

func deliveryOf(row query.ListDeliveriesAnyTeamRow) Delivery {
	d := Delivery{
		ID: row.ID, Event: row.Event, SubscriberID: row.SubscriberID, Channel: row.Channel, State: row.State,
		Attempts:  int(row.Attempts),
		CreatedAt: TimeOf(&row.CreatedAt), DueAt: TimeOf(row.DueAt), FinishedAt: TimeOf(row.FinishedAt),
		LastError: row.LastError,
	}
	if row.DueAt != nil && *row.DueAt == 0 { // at once
		d.DueAt = d.CreatedAt
	}
	return d
}
