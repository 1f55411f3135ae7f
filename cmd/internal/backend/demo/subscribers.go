package demo

import (
	"context"
	"fmt"
	"time"

	"opsgate/authn"
	"opsgate/cmd/internal/backend/service"
	"opsgate/cmd/internal/backend/store"
	"opsgate/cmd/internal/backend/store/query"
)

// SeedWithSubscribers is [Seed] with subscribers of the status pages, whose addresses are all under
// .example.
func SeedWithSubscribers(ctx context.Context, s *store.Store, format authn.TokenFormat, now time.Time) error {
	return seedStore(ctx, s, format, now, insertSubscribers)
}

// A subscriber of a page.
type subscriber struct{ team, page, channel, address string }

const email, webhook = service.ChannelEmail, service.ChannelWebhook

// subscribers returns the demo subscribers.
func subscribers() []subscriber {
	return []subscriber{
		{team: harbour, page: "Harbour", channel: email, address: "ana@customer.example"},
		{team: harbour, page: "Harbour", channel: email, address: "ben@customer.example"},
		{team: harbour, page: "Harbour", channel: email, address: "operations@shipping.example"},
		{team: harbour, page: "Harbour", channel: webhook, address: "http://hooks.partner.example/status"},
		{team: harbour, page: "Harbour", channel: webhook, address: "http://chat.customer.example/bridge/incidents"},
		{team: harbour, page: "Harbour", channel: webhook, address: "http://hooks.shipping.example/status"},
		{team: harbour, page: "Harbour", channel: webhook, address: "http://hooks.archive.example/status"},
		{team: harbour, page: "Harbour internal", channel: email, address: "on-call@harbour.example"},
		{team: harbour, page: "Partners", channel: email, address: "integration@partner.example"},
		{team: harbour, page: "Partners", channel: webhook, address: "http://hooks.partner.example/status"},
		{team: lighthouse, page: "Lighthouse", channel: email, address: "studio@lighthouse.example"},
		{team: lighthouse, page: "Lighthouse", channel: webhook, address: "http://hooks.lighthouse.example/status"},
	}
}

func insertSubscribers(ctx context.Context, q *query.Queries, now time.Time) error {
	for _, s := range subscribers() {
		name := s.page + "/" + s.channel + "/" + s.address
		row := query.InsertSubscriberParams{
			ID: id(s.team, "subscriber", name), TeamID: teamID(s.team), StatusPageID: id(s.team, "page", s.page),
			Channel: s.channel, Address: s.address, CreatedAt: now.AddDate(0, 0, -10).UnixNano(),
		}
		if s.channel == webhook {
			secret := seed(s.team, "secret", name) // the seed is public: it signs only generated data
			row.Secret = secret[:]
		}
		if err := q.InsertSubscriber(ctx, row); err != nil {
			return fmt.Errorf("insert the subscriber %s: %w", name, err)
		}
	}
	return nil
}
