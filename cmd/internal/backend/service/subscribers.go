package service

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"opsgate/cmd/internal/backend/audit"
	"opsgate/cmd/internal/backend/delivery"
	"opsgate/cmd/internal/backend/mail"
	"opsgate/cmd/internal/backend/store/query"
	"opsgate/cmd/internal/backend/webhook"
)

// Channels of subscribers.
const (
	ChannelEmail   = delivery.Email
	ChannelWebhook = delivery.Webhook
)

// Action types of subscribers in the audit log.
const (
	subscriberAdded = "subscriber.added"
	secretRotated   = "subscriber.secret_rotated" //nolint:gosec // not a secret
)

// A Subscriber is notified of the incidents of a status page.
type Subscriber struct {
	ID, TeamID, PageID, PageHostname string
	Channel, Address                 string
	CreatedAt                        time.Time
	Waiting, Dead                    int // numbers of its deliveries
}

// NewSubscriber is the input of AddSubscriber.
type NewSubscriber struct {
	// Page is the id or the hostname of a status page.
	Page             string
	Channel, Address string
	// AllowHTTP accepts a webhook with the scheme http.
	AllowHTTP bool
}

// Check returns an error if the channel is unknown or the address invalid. The error does not
// contain the address.
func (n NewSubscriber) Check() error {
	switch n.Channel {
	case ChannelEmail:
		return mail.CheckAddress(n.Address)
	case ChannelWebhook:
		return webhook.CheckURL(n.Address, n.AllowHTTP)
	}
	return fmt.Errorf("unknown channel %q: must be %s or %s", n.Channel, ChannelEmail, ChannelWebhook)
}

// NormalisedAddress returns the form of a valid address that is stored, so that a page has it once.
// No common mail server distinguishes the case of the part before the @.
func (n NewSubscriber) NormalisedAddress() string {
	if n.Channel == ChannelWebhook {
		return webhook.Normalise(n.Address)
	}
	return strings.ToLower(n.Address)
}

// AddedSubscriber is the result of AddSubscriber.
type AddedSubscriber struct {
	ID string
	// Secret is the text form of the key that signs messages to a webhook. It is not shown again.
	Secret string
}

// AddSubscriber subscribes an address to a status page. An address that the page already has is an
// error, and an unknown page is ErrNotFound.
func (b *Backend) AddSubscriber(ctx context.Context, n NewSubscriber) (added AddedSubscriber, err error) {
	if err := n.Check(); err != nil {
		return AddedSubscriber{}, err
	}
	n.Address = n.NormalisedAddress()
	err = b.store.Write(ctx, func(q *query.Queries) error {
		page, err := findSubscribedPage(ctx, q, n.Page)
		if err != nil {
			return err
		}
		existing, err := q.GetSubscriberByAddressAnyTeam(ctx, query.GetSubscriberByAddressAnyTeamParams{
			StatusPageID: page.ID, Channel: n.Channel, Address: n.Address,
		})
		switch {
		case err == nil:
			return fmt.Errorf("the page already has this address: subscriber %s", existing.ID)
		case !errors.Is(err, sql.ErrNoRows):
			return fmt.Errorf("look for the address: %w", err)
		}
		added, err = b.InsertSubscriber(ctx, q, page, n, audit.Service())
		return err
	})
	return added, err
}

// InsertSubscriber adds a checked subscriber that the page does not have, in the transaction of q,
// for an actor.
func (b *Backend) InsertSubscriber(
	ctx context.Context, q *query.Queries, page query.StatusPage, n NewSubscriber, actor audit.Actor,
) (AddedSubscriber, error) {
	now, err := audit.TimeOfWrite(ctx, q, b.options.Clock, page.TeamID)
	if err != nil {
		return AddedSubscriber{}, err
	}
	row := query.InsertSubscriberParams{
		ID: newID(), TeamID: page.TeamID, StatusPageID: page.ID, Channel: n.Channel, Address: n.Address, CreatedAt: now,
	}
	added := AddedSubscriber{ID: row.ID}
	if n.Channel == ChannelWebhook {
		row.Secret = webhook.NewSecret()
		added.Secret = webhook.FormatSecret(row.Secret)
	}
	if err := q.InsertSubscriber(ctx, row); err != nil {
		return AddedSubscriber{}, fmt.Errorf("write the subscriber: %w", err)
	}
	return added, actor.Action(page.TeamID, subscriberAdded, row.ID, now).Record(ctx, q)
}

// ListSubscribers returns the subscribers of the status page with this id or hostname, or all
// subscribers if it is empty, by hostname and age. It returns ErrNotFound if there is no such page.
func (b *Backend) ListSubscribers(ctx context.Context, page string) (subscribers []Subscriber, err error) {
	err = b.store.Read(ctx, func(q *query.Queries) error {
		id := ""
		if page != "" {
			found, err := findSubscribedPage(ctx, q, page)
			if err != nil {
				return err
			}
			id = found.ID
		}
		return list(&subscribers, "subscribers", subscriber)(q.ListSubscribersAnyTeam(ctx, id))
	})
	return subscribers, err
}

// RemoveSubscriber deletes a subscriber with its address and its deliveries. It returns ErrNotFound
// if there is no such subscriber.
func (b *Backend) RemoveSubscriber(ctx context.Context, id string) error {
	return b.store.Write(ctx, func(q *query.Queries) error {
		row, err := findSubscriber(ctx, q, id)
		if err != nil {
			return err
		}
		return delivery.RemoveSubscriber(ctx, q, b.options.Clock, row.TeamID, row.ID, audit.Service())
	})
}

// RotateSecret gives a webhook a new secret and returns its text form. For the time of the overlap,
// messages are signed with the old secret too; a secret from before the old one is dropped at once.
// It returns ErrNotFound if there is no such subscriber.
func (b *Backend) RotateSecret(ctx context.Context, id string, overlap time.Duration) (secret string, err error) {
	fresh := webhook.NewSecret()
	err = b.store.Write(ctx, func(q *query.Queries) error {
		row, err := findSubscriber(ctx, q, id)
		if err != nil {
			return err
		}
		if row.Channel != ChannelWebhook {
			return fmt.Errorf("subscriber %s has no secret: it is not a webhook", row.ID)
		}
		secrets := query.SetSubscriberSecretsAnyTeamParams{ID: row.ID, Secret: fresh}
		if overlap > 0 {
			until := b.options.Clock().Add(overlap).UnixNano()
			secrets.PreviousSecret, secrets.PreviousSecretUntil = row.Secret, &until
		}
		if err := q.SetSubscriberSecretsAnyTeam(ctx, secrets); err != nil {
			return fmt.Errorf("write the secret: %w", err)
		}
		return audit.Service().Record(ctx, q, b.options.Clock, row.TeamID, secretRotated, row.ID)
	})
	if err != nil {
		return "", err
	}
	return webhook.FormatSecret(fresh), nil
}

// findSubscribedPage returns the status page with an id or a hostname.
func findSubscribedPage(ctx context.Context, q *query.Queries, page string) (query.StatusPage, error) {
	row, err := q.FindStatusPageAnyTeam(ctx, page)
	return row, orNotFound(err, "status page", page)
}

func findSubscriber(ctx context.Context, q *query.Queries, id string) (query.Subscriber, error) {
	row, err := q.GetSubscriberAnyTeam(ctx, id)
	return row, orNotFound(err, "subscriber", id)
}

func subscriber(row query.ListSubscribersAnyTeamRow) Subscriber {
	s := row.Subscriber
	return Subscriber{
		ID: s.ID, TeamID: s.TeamID, PageID: s.StatusPageID, PageHostname: row.UniqueHostname, Channel: s.Channel,
		Address:   s.Address,
		CreatedAt: TimeOf(&s.CreatedAt), Waiting: int(row.Waiting), Dead: int(row.Dead),
	}
}
