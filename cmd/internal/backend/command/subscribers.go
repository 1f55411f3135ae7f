package command

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"time"

	"opsgate/cmd/internal/backend/service"
	"opsgate/cmd/internal/kit/commandline"
)

type subscriberGroup struct {
	Add          subscriberAdd    `cmd:"" help:"Subscribe an address to a status page. Print its id or, once, the secret of a webhook."`
	List         subscriberList   `cmd:"" help:"List the subscribers with their numbers of waiting and dead deliveries."`
	Remove       subscriberRemove `cmd:"" help:"Delete a subscriber with its address and its deliveries."`
	RotateSecret subscriberRotate `cmd:"" help:"Give a webhook a new secret and print it. It is not shown again."`
}

type subscriberAdd struct {
	dataDir

	Page      string `required:"" placeholder:"ID|HOSTNAME" help:"Status page."`
	Email     string `required:"" xor:"address" placeholder:"ADDRESS" help:"Email address. Its owner is asked to confirm."`
	Confirmed bool   `help:"With --email: notify the address without asking its owner."`
	Webhook   string `required:"" xor:"address" placeholder:"URL" help:"URL that messages are posted to."`
	AllowHTTP bool   `help:"With --webhook: accept http and any host and port, for demos. Servers need --allow-http-webhooks."`
}

// Run adds the subscriber.
func (c *subscriberAdd) Run(ctx context.Context, e Environment) error {
	subscriber := service.NewSubscriber{
		Page: c.Page, Channel: service.ChannelEmail, Address: c.Email, Confirmed: c.Confirmed, AllowHTTP: c.AllowHTTP,
	}
	if c.Webhook != "" {
		subscriber.Channel, subscriber.Address = service.ChannelWebhook, c.Webhook
	}
	if err := errors.Join(c.checkFlags(), subscriber.Check()); err != nil {
		return commandline.UsageError{Err: err}
	}
	return c.use(ctx, e, func(b *service.Backend) error {
		added, err := b.AddSubscriber(ctx, subscriber)
		if err != nil {
			return err
		}
		switch {
		case added.Secret != "":
			_, err = fmt.Fprintln(e.Out, added.Secret)
			_, noted := fmt.Fprintf(e.Err, "Secret of subscriber %s. It is not shown again.\n", added.ID)
			return errors.Join(err, noted)
		case added.AskedAgain:
			fmt.Fprintln(e.Err, "The page already has this address: its owner is asked again to confirm.")
		}
		_, err = fmt.Fprintln(e.Out, added.ID)
		return err
	})
}

func (c *subscriberAdd) checkFlags() error {
	if c.Confirmed && c.Webhook != "" {
		return errors.New("--confirmed is for --email: webhooks need no confirmation")
	}
	if c.AllowHTTP && c.Email != "" {
		return errors.New("--allow-http is for --webhook")
	}
	return nil
}

type subscriberList struct {
	dataDir

	Page string `placeholder:"ID|HOSTNAME" help:"Only the subscribers of this status page."`
}

// Run lists the subscribers.
func (c *subscriberList) Run(ctx context.Context, e Environment) error {
	return c.use(ctx, e, func(b *service.Backend) error {
		subscribers, err := b.ListSubscribers(ctx, c.Page)
		if err != nil {
			return err
		}
		return table(e.Out, "ID\tPAGE\tCHANNEL\tADDRESS\tADDED\tCONFIRMED\tWAITING\tDEAD", len(subscribers), func(i int) string {
			s := subscribers[i]
			return fmt.Sprintf("%s\t%s\t%s\t%s\t%s\t%s\t%d\t%d",
				s.ID, s.PageHostname, s.Channel, shortAddress(s), when(s.CreatedAt), when(s.ConfirmedAt), s.Waiting, s.Dead)
		})
	})
}

// shortAddress returns only the scheme and the host of a URL: paths and queries of webhooks contain secrets.
func shortAddress(s service.Subscriber) string {
	if s.Channel == service.ChannelEmail {
		return s.Address
	}
	u, err := url.Parse(s.Address)
	if err != nil {
		return "…"
	}
	return u.Scheme + "://" + u.Host + "/…"
}

type subscriberRemove struct {
	dataDir

	ID string `arg:"" help:"Id of the subscriber."`
}

// Run removes the subscriber.
func (c *subscriberRemove) Run(ctx context.Context, e Environment) error {
	return c.use(ctx, e, func(b *service.Backend) error {
		if err := b.RemoveSubscriber(ctx, c.ID); err != nil {
			return err
		}
		_, err := fmt.Fprintf(e.Out, "%s\tremoved\n", c.ID)
		return err
	})
}

// maxOverlap bounds how long an old secret is used.
const maxOverlap = 30 * 24 * time.Hour

type subscriberRotate struct {
	dataDir

	ID      string         `arg:"" help:"Id of the subscriber."`
	Overlap *time.Duration `xor:"overlap" placeholder:"DURATION" help:"How long messages are signed with the old secret too (24h)."`
	Now     bool           `xor:"overlap" help:"Stop using the old secret at once, because it has leaked."`
}

// Run rotates the secret and prints the new one.
func (c *subscriberRotate) Run(ctx context.Context, e Environment) error {
	overlap := 24 * time.Hour
	switch {
	case c.Now:
		overlap = 0
	case c.Overlap != nil:
		overlap = *c.Overlap
	}
	if overlap < 0 || overlap > maxOverlap {
		return commandline.UsageError{Err: fmt.Errorf("--overlap must be 0 to %v", maxOverlap)}
	}
	return c.use(ctx, e, func(b *service.Backend) error {
		secret, err := b.RotateSecret(ctx, c.ID, overlap)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintln(e.Out, secret)
		note := "The old one is not used any more."
		if overlap > 0 {
			note = "Messages are signed with the old one too until " + when(e.Clock().Add(overlap)) + "."
		}
		_, noted := fmt.Fprintf(e.Err, "New secret of subscriber %s. It is not shown again. %s\n", c.ID, note)
		return errors.Join(err, noted)
	})
}
