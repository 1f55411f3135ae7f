package command

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"

	"opsgate/cmd/internal/backend/delivery"
	"opsgate/cmd/internal/backend/demo"
	"opsgate/cmd/internal/backend/links"
	"opsgate/cmd/internal/backend/mail"
	"opsgate/cmd/internal/backend/outbound"
	"opsgate/cmd/internal/backend/service"
	"opsgate/cmd/internal/backend/store/query"
	"opsgate/cmd/internal/backend/webhook"
	"opsgate/cmd/internal/dev/inbox"
)

// notifications deliver the messages of the backend to the inbox.
type notifications struct {
	backend *service.Backend
	clock   func() time.Time // of the backend
	inbox   *inbox.Inbox
	out     *outbound.Outbound
	metrics *prometheus.Registry
	logger  *slog.Logger
}

// newNotifications opens an inbox at the address and returns notifications that never leave the machine: emails go to the inbox, and
// webhooks where it connects to. The clock is that of the backend.
func newNotifications(
	ctx context.Context, address string, b *service.Backend, clock func() time.Time, logger *slog.Logger, traces trace.TracerProvider,
) (*notifications, error) {
	received, err := inbox.Listen(ctx, inbox.Options{Address: address})
	if err != nil {
		return nil, err
	}
	n := &notifications{backend: b, clock: clock, inbox: received, metrics: prometheus.NewRegistry(), logger: logger}
	n.out, err = outbound.New(outbound.Options{
		Backend: b, Clock: clock, Logger: logger.With(slog.String("part", "delivery")), Registerer: n.metrics, TracerProvider: traces,
		Mail: &mail.Options{
			Address: received.SMTPAddress(), TLS: mail.NoTLS, From: "Status pages <status@harbour.example>", Hello: "opsdev.example",
			LinksURL: received.URL(),
		},
		Webhook: webhook.Options{AllowHTTP: true, DialContext: received.DialContext},
	})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("send to the inbox: %w", err), received.Close())
	}
	return n, nil
}

// deliver delivers messages until ctx ends.
func (n *notifications) deliver(ctx context.Context) error { return n.out.Run(ctx) }

// receive serves the inbox of the system until ctx ends.
func (n *notifications) receive(ctx context.Context, s system) error {
	logger := n.logger.With(slog.String("part", "inbox"))
	return n.inbox.Run(ctx, inbox.System{
		Subscribers:   n.subscribers,
		Links:         links.New(links.Options{Store: n.backend.Store(), Clock: n.clock, Logger: logger}),
		Metrics:       n.metrics,
		Logger:        logger,
		Documentation: s.BaseURL + "/docs/",
		Example: curl(s) + ` -H 'Content-Type: application/json' \
  -d '{"title": "Slow search", "status": "investigating", "impact": "minor", "message": "We are looking into it.", "statusPageId": "` +
			demo.NotifiedPage() + `"}' \
  ` + s.BaseURL + "/v1/incidents",
	})
}

// subscribers returns the subscribers with an address, and their secrets that are valid by the wall clock.
func (n *notifications) subscribers(ctx context.Context, channel, address string) (list []inbox.Subscriber, err error) {
	err = n.backend.Store().Read(ctx, func(q *query.Queries) error {
		rows, err := q.ListSubscribersByAddressAnyTeam(ctx, query.ListSubscribersByAddressAnyTeamParams{Channel: channel, Address: address})
		if err != nil {
			return fmt.Errorf("list the subscribers of an address: %w", err)
		}
		for _, row := range rows {
			list = append(list, inbox.Subscriber{
				Page: row.Page, Hostname: row.Hostname,
				Secrets: delivery.ValidSecrets(row.Secret, row.PreviousSecret, row.PreviousSecretUntil, time.Now().UnixNano()),
			})
		}
		return nil
	})
	return list, err
}
