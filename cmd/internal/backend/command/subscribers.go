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
	"opsgate/internal/commandline"
)

func subscriberAddCommand(e Environment) *cobra.Command {
	var n service.NewSubscriber
	var email, url string // one of them
	c := databaseCommand(e, &cobra.Command{
		Use: "add", Short: "Subscribe an address to a status page. Print its id or, once, the secret of a webhook",
		PreRunE: func(c *cobra.Command, _ []string) error {
			n.Channel, n.Address = service.ChannelEmail, email
			if url != "" {
				n.Channel, n.Address = service.ChannelWebhook, url
			}
			switch {
			case c.Flags().Changed("email") == c.Flags().Changed("webhook"): // which is reported after this function
				return nil
			case n.AllowHTTP && email != "":
				return errors.New("--allow-http is for --webhook")
			}
			return n.Check()
		},
	}, func(ctx context.Context, b *service.Backend, _ []string) error {
		added, err := b.AddSubscriber(ctx, n)
		if err != nil {
			return err
		}
		if added.Secret != "" {
			_, err = fmt.Fprintln(e.Out, added.Secret)
			_, noted := fmt.Fprintf(e.Err, "Secret of subscriber %s. It is not shown again.\n", added.ID)
			return errors.Join(err, noted)
		}
		_, err = fmt.Fprintln(e.Out, added.ID)
		return err
	})
	flags := c.Flags()
	flags.StringVar(&n.Page, "page", "", "status page, as `ID|HOSTNAME`")
	flags.StringVar(&email, "email", "", "email `ADDRESS`")
	flags.StringVar(&url, "webhook", "", "`URL` that messages are posted to")
	flags.BoolVar(&n.AllowHTTP, "allow-http", false,
		"with --webhook: accept http and any host and port, for demos. Servers need --allow-http-webhooks")
	commandline.Required(c, "page")
	c.MarkFlagsOneRequired("email", "webhook")
	c.MarkFlagsMutuallyExclusive("email", "webhook")
	return c
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
		return table(e.Out, "ID\tPAGE\tCHANNEL\tADDRESS\tADDED\tWAITING\tDEAD", len(subscribers), func(i int) string {
			s := subscribers[i]
			return fmt.Sprintf("%s\t%s\t%s\t%s\t%s\t%d\t%d",
				s.ID, s.PageHostname, s.Channel, shortAddress(s), when(s.CreatedAt), s.Waiting, s.Dead)
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
		Use: "remove ID", Short: "Delete a subscriber with its address and its deliveries",
	}, func(ctx context.Context, b *service.Backend, arguments []string) error {
		if err := b.RemoveSubscriber(ctx, arguments[0]); err != nil {
			return err
		}
		_, err := fmt.Fprintf(e.Out, "%s\tremoved\n", arguments[0])
		return err
	})
}

func rotateSecretCommand(e Environment) *cobra.Command {
	var overlap time.Duration
	var now bool
	c := databaseCommand(e, &cobra.Command{
		Use: "rotate-secret ID", Short: "Give a webhook a new secret and print it. It is not shown again",
		PreRunE: func(*cobra.Command, []string) error {
			if overlap < 0 || overlap > store.MaxOverlap {
				return fmt.Errorf("--overlap must be 0 to %v", store.MaxOverlap)
			}
			return nil
		},
	}, func(ctx context.Context, b *service.Backend, arguments []string) error {
		if now {
			overlap = 0
		}
		secret, err := b.RotateSecret(ctx, arguments[0], overlap)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintln(e.Out, secret)
		note := "The old one is not used any more."
		if overlap > 0 {
			note = "Messages are signed with the old one too until " + when(e.Clock().Add(overlap)) + "."
		}
		_, noted := fmt.Fprintf(e.Err, "New secret of subscriber %s. It is not shown again. %s\n", arguments[0], note)
		return errors.Join(err, noted)
	})
	c.Flags().DurationVar(&overlap, "overlap", 24*time.Hour,
		"`DURATION` for which messages are signed with the old secret too")
	c.Flags().BoolVar(&now, "now", false, "stop using the old secret at once, because it has leaked")
	c.MarkFlagsMutuallyExclusive("overlap", "now")
	return c
}
