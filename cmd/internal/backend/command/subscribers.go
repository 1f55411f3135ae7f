package command

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"opsgate/cmd/internal/backend/service"
	"opsgate/cmd/internal/backend/store"
	"opsgate/cmd/internal/backend/webhook"
	"opsgate/cmd/internal/kit/commandline"
)

type subscriberAdd struct {
	dataDir

	Page           string
	Email, Webhook string // one of them
	Confirmed      bool
	AllowHTTP      bool
}

func subscriberAddCommand(e Environment) *cobra.Command {
	a := &subscriberAdd{}
	c := &cobra.Command{
		Use: "add", Short: "Subscribe an address to a status page. Print its id or, once, the secret of a webhook",
		RunE: func(c *cobra.Command, _ []string) error { return a.run(c.Context(), e) },
	}
	a.addTo(c)
	flags := c.Flags()
	flags.StringVar(&a.Page, "page", "", "status page, as `ID|HOSTNAME`")
	flags.StringVar(&a.Email, "email", "", "email `ADDRESS`. Its owner is asked to confirm")
	flags.BoolVar(&a.Confirmed, "confirmed", false, "with --email: notify the address without asking its owner")
	flags.StringVar(&a.Webhook, "webhook", "", "`URL` that messages are posted to")
	flags.BoolVar(&a.AllowHTTP, "allow-http", false,
		"with --webhook: accept http and any host and port, for demos. Servers need --allow-http-webhooks")
	commandline.Required(c, "page")
	c.MarkFlagsOneRequired("email", "webhook")
	c.MarkFlagsMutuallyExclusive("email", "webhook")
	return c
}

// run adds the subscriber.
func (c *subscriberAdd) run(ctx context.Context, e Environment) error {
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
		case added.Restarted:
			fmt.Fprintln(e.Err, "The page already has this address, which was stopped: it gets messages again.")
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

func subscriberListCommand(e Environment) *cobra.Command {
	var page string
	c := databaseCommand(e, &cobra.Command{
		Use: "list", Short: "List the subscribers with their numbers of waiting and dead deliveries",
	}, func(ctx context.Context, b *service.Backend, _ []string) error {
		subscribers, err := b.ListSubscribers(ctx, page)
		if err != nil {
			return err
		}
		return table(e.Out, "ID\tPAGE\tCHANNEL\tADDRESS\tADDED\tCONFIRMED\tWAITING\tDEAD\tNOTE", len(subscribers), func(i int) string {
			s := subscribers[i]
			return fmt.Sprintf("%s\t%s\t%s\t%s\t%s\t%s\t%d\t%d\t%s",
				s.ID, s.PageHostname, s.Channel, shortAddress(s), when(s.CreatedAt), when(s.ConfirmedAt), s.Waiting, s.Dead, oneLine(s.Note))
		})
	})
	c.Flags().StringVar(&page, "page", "", "only the subscribers of this status page, as `ID|HOSTNAME`")
	return c
}

// shortAddress returns the address without what may be secret.
func shortAddress(s service.Subscriber) string {
	if s.Channel == service.ChannelEmail {
		return s.Address
	}
	return webhook.Shown(s.Address)
}

func subscriberRemoveCommand(e Environment) *cobra.Command {
	return databaseCommand(e, &cobra.Command{
		Use: "remove ID", Short: "Delete a subscriber with its address and its deliveries", Args: cobra.ExactArgs(1),
	}, func(ctx context.Context, b *service.Backend, arguments []string) error {
		if err := b.RemoveSubscriber(ctx, arguments[0]); err != nil {
			return err
		}
		_, err := fmt.Fprintf(e.Out, "%s\tremoved\n", arguments[0])
		return err
	})
}

func rotateSecretCommand(e Environment) *cobra.Command {
	var dir dataDir
	var overlap time.Duration
	var now bool
	c := &cobra.Command{
		Use: "rotate-secret ID", Short: "Give a webhook a new secret and print it. It is not shown again", Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, arguments []string) error {
			if now {
				overlap = 0
			}
			return rotateSecret(c.Context(), e, dir, arguments[0], overlap)
		},
	}
	dir.addTo(c)
	c.Flags().DurationVar(&overlap, "overlap", 24*time.Hour, "`DURATION` for which messages are signed with the old secret too")
	c.Flags().BoolVar(&now, "now", false, "stop using the old secret at once, because it has leaked")
	c.MarkFlagsMutuallyExclusive("overlap", "now")
	return c
}

// rotateSecret rotates the secret of a subscriber and prints the new one.
func rotateSecret(ctx context.Context, e Environment, dir dataDir, id string, overlap time.Duration) error {
	if overlap < 0 || overlap > store.MaxOverlap {
		return commandline.UsageError{Err: fmt.Errorf("--overlap must be 0 to %v", store.MaxOverlap)}
	}
	return dir.use(ctx, e, func(b *service.Backend) error {
		secret, err := b.RotateSecret(ctx, id, overlap)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintln(e.Out, secret)
		note := "The old one is not used any more."
		if overlap > 0 {
			note = "Messages are signed with the old one too until " + when(e.Clock().Add(overlap)) + "."
		}
		_, noted := fmt.Fprintf(e.Err, "New secret of subscriber %s. It is not shown again. %s\n", id, note)
		return errors.Join(err, noted)
	})
}
