package devcmd

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"opsgate/cmd/internal/demo"
	"opsgate/cmd/internal/inbox"
	"opsgate/cmd/internal/refbackend"
	"opsgate/cmd/internal/refbackend/store"
	"opsgate/cmd/internal/refbackend/store/query"
)

// inboxSystem returns what the inbox shows of the system.
func inboxSystem(backend *refbackend.Backend, s system, logger *slog.Logger) inbox.System {
	return inbox.System{
		Subscribers: func(ctx context.Context, channel, address string) ([]inbox.Subscriber, error) {
			return findSubscribers(ctx, backend.Store(), channel, address)
		},
		Metrics:       prometheus.NewRegistry(),
		Logger:        logger.With(slog.String("part", "inbox")),
		Documentation: s.BaseURL + "/docs/",
		Example: curl(s) + ` -H 'Content-Type: application/json' \
  -d '{"title": "Slow search", "status": "investigating", "impact": "minor", "message": "We are looking into it.", "statusPageId": "` +
			demo.NotifiedPage() + `"}' \
  ` + s.BaseURL + "/v1/incidents",
	}
}

// findSubscribers returns the subscribers with an address. A secret that was replaced is valid until its time, by the wall clock.
func findSubscribers(ctx context.Context, data *store.Store, channel, address string) (list []inbox.Subscriber, err error) {
	err = data.Read(ctx, func(q *query.Queries) error {
		rows, err := q.ListSubscribersByAddress(ctx, query.ListSubscribersByAddressParams{Channel: channel, Address: address})
		if err != nil {
			return fmt.Errorf("list the subscribers of an address: %w", err)
		}
		for _, row := range rows {
			subscriber := inbox.Subscriber{Page: row.Page, Hostname: row.Hostname}
			if row.Secret != nil {
				subscriber.Secrets = append(subscriber.Secrets, row.Secret)
			}
			if until := row.PreviousSecretUntil; until != nil && *until > time.Now().UnixNano() {
				subscriber.Secrets = append(subscriber.Secrets, row.PreviousSecret)
			}
			list = append(list, subscriber)
		}
		return nil
	})
	return list, err
}
