package command

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"opsgate/cmd/internal/backend/service"
	"opsgate/cmd/internal/kit/commandline"
)

type deliveryList struct {
	dataDir

	State, Subscriber string // "" for all
	Limit             int
}

func deliveryListCommand(e Environment) *cobra.Command {
	l := &deliveryList{}
	c := &cobra.Command{
		Use: "list", Short: "List deliveries, newest first",
		RunE: func(c *cobra.Command, _ []string) error { return l.run(c.Context(), e) },
	}
	l.addTo(c)
	commandline.Enum(c.Flags(), &l.State, "state", "", "only those in this `STATE`: waiting, dead or delivered",
		"", "waiting", "dead", "delivered")
	c.Flags().StringVar(&l.Subscriber, "subscriber", "", "only deliveries to the subscriber with this `ID`")
	c.Flags().IntVar(&l.Limit, "limit", 100, "at most `N` deliveries")
	return c
}

// run lists the deliveries.
func (c *deliveryList) run(ctx context.Context, e Environment) error {
	if c.Limit < 1 {
		return commandline.UsageError{Err: errors.New("--limit must be at least 1")}
	}
	return c.use(ctx, e, func(b *service.Backend) error {
		filter := service.DeliveryFilter{State: c.State, SubscriberID: c.Subscriber}
		deliveries, err := b.ListDeliveries(ctx, filter, c.Limit)
		if err != nil {
			return err
		}
		const heading = "ID\tEVENT\tSUBSCRIBER\tSTATE\tATTEMPTS\tNEXT ATTEMPT\tAGE\tLAST ERROR"
		now := e.Clock()
		return table(e.Out, heading, len(deliveries), func(i int) string {
			d := deliveries[i]
			return fmt.Sprintf("%s\t%s\t%s\t%s\t%d\t%s\t%s\t%s", d.ID, d.Event, d.SubscriberID, d.State, d.Attempts, when(d.DueAt),
				now.Sub(d.CreatedAt).Truncate(time.Second), oneLine(d.LastError))
		})
	})
}

// oneLine formats a text for the last cell of a table: on one line, without characters that control a terminal.
func oneLine(text string) string {
	if text == "" {
		return "-"
	}
	return strings.Map(func(r rune) rune {
		if r < ' ' || r >= 0x7f && r < 0xa0 {
			return ' '
		}
		return r
	}, text)
}

type deliveryRetry struct {
	dataDir

	IDs        []string // of dead letters, and of messages that wait
	Dead       bool     // all of them
	Subscriber string   // those to this subscriber; "" for all
}

func deliveryRetryCommand(e Environment) *cobra.Command {
	r := &deliveryRetry{}
	c := &cobra.Command{
		Use: "retry [ID...]", Short: "Send dead letters again, after the other messages of their subscribers, or waiting messages now",
		Args: cobra.ArbitraryArgs,
		RunE: func(c *cobra.Command, ids []string) error {
			r.IDs = ids
			return r.run(c.Context(), e)
		},
	}
	r.addTo(c)
	c.Flags().BoolVar(&r.Dead, "dead", false, "all dead letters, without those of stopped subscribers")
	c.Flags().StringVar(&r.Subscriber, "subscriber", "", "with --dead: only those to the subscriber with this `ID`")
	return c
}

// run retries dead letters.
func (c *deliveryRetry) run(ctx context.Context, e Environment) error {
	if c.Dead == (len(c.IDs) > 0) {
		return commandline.UsageError{Err: errors.New("either ids or --dead")}
	}
	if c.Subscriber != "" && !c.Dead {
		return commandline.UsageError{Err: errors.New("--subscriber is for --dead")}
	}
	return c.use(ctx, e, func(b *service.Backend) error {
		retried := len(c.IDs)
		if c.Dead {
			var err error
			if retried, err = b.RetryDeadLetters(ctx, c.Subscriber); err != nil {
				return err
			}
		} else if err := b.RetryDeliveries(ctx, c.IDs); err != nil {
			return err
		}
		_, err := fmt.Fprintf(e.Out, "%d retried\n", retried)
		return err
	})
}
