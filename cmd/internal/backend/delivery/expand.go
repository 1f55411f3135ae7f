package delivery

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/google/uuid"

	"opsgate/cmd/internal/backend/store/query"
)

// expansionBatch is the number of deliveries that one transaction inserts. A transaction of the API waits for it.
const expansionBatch = 50

// expandBatch inserts deliveries to the next subscribers of the first notification. It returns false if there is no notification. The
// position is stored in the same transaction, so a batch that is repeated after a crash inserts nothing twice.
func (d *Dispatcher) expandBatch(ctx context.Context) (found bool, err error) {
	var n query.Notification
	err = d.store.Read(ctx, func(q *query.Queries) error {
		n, err = q.NextNotificationAnyTeam(ctx)
		return err
	})
	if errors.Is(err, sql.ErrNoRows) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("look for a notification: %w", err)
	}
	err = d.store.Write(ctx, func(q *query.Queries) error {
		subscribers, err := q.ListConfirmedSubscribersAfterAnyTeam(ctx, query.ListConfirmedSubscribersAfterAnyTeamParams{
			StatusPageID: n.StatusPageID, After: n.ExpandedTo, NotifiedAt: &n.CreatedAt, PageSize: expansionBatch,
		})
		if err != nil {
			return fmt.Errorf("list the subscribers: %w", err)
		}
		for _, s := range subscribers {
			if err := d.insert(ctx, q, n, s); err != nil {
				return fmt.Errorf("write a delivery: %w", err)
			}
			n.ExpandedTo = s.ID
		}
		if len(subscribers) < expansionBatch {
			now := d.now()
			n.ExpandedAt = &now
		}
		err = q.SetNotificationExpandedAnyTeam(ctx, query.SetNotificationExpandedAnyTeamParams{
			ID: n.ID, ExpandedTo: n.ExpandedTo, ExpandedAt: n.ExpandedAt,
		})
		if err != nil {
			return fmt.Errorf("write the position: %w", err)
		}
		return nil
	})
	return true, err
}

func (d *Dispatcher) insert(
	ctx context.Context, q *query.Queries, n query.Notification, s query.ListConfirmedSubscribersAfterAnyTeamRow,
) error {
	return q.InsertDeliveryAnyTeam(ctx, query.InsertDeliveryAnyTeamParams{
		ID: uuid.Must(uuid.NewV7()).String(), SubscriberID: s.ID, Channel: s.Channel, Receiver: receiverOf(s.Channel, s.Address),
		NotificationID: &n.ID, Now: d.now(),
	})
}

// receiverOf returns the host and port of a webhook. All email goes through one server, so it has no receiver.
func receiverOf(channel, address string) string {
	if channel != Webhook {
		return ""
	}
	location, err := url.Parse(address)
	if err != nil {
		return "" // the sender reports it
	}
	return strings.ToLower(location.Host)
}
