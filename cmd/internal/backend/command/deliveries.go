package command

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"opsgate/cmd/internal/backend/service"
	"opsgate/internal/commandline"
)

func deliveryListCommand(e Environment) *cobra.Command {
	var filter service.DeliveryFilter
	var limit int
	c := databaseCommand(e, &cobra.Command{
		Use: "list", Short: "List deliveries, newest first",
		PreRunE: func(*cobra.Command, []string) error {
			if limit < 1 {
				return errors.New("--limit must be at least 1")
			}
			return nil
		},
	}, func(ctx context.Context, b *service.Backend, _ []string) error {
		deliveries, err := b.ListDeliveries(ctx, filter, limit)
		if err != nil {
			return err
		}
		const heading = "ID\tEVENT\tSUBSCRIBER\tSTATE\tATTEMPTS\tNEXT ATTEMPT\tAGE\tLAST ERROR"
		now := e.Clock()
		return table(e.Out, heading, len(deliveries), func(i int) string {
			d := deliveries[i]
			return fmt.Sprintf("%s\t%s\t%s\t%s\t%d\t%s\t%s\t%s", d.ID, d.Event, d.SubscriberID, d.State, d.Attempts,
				when(d.DueAt),
				now.Sub(d.CreatedAt).Truncate(time.Second), oneLine(d.LastError))
		})
	})
	commandline.Enum(c.Flags(), &filter.State, "state", "", "only those in this `STATE`: waiting, dead or delivered",
		"", "waiting", "dead", "delivered")
	c.Flags().StringVar(&filter.SubscriberID, "subscriber", "", "only deliveries to the subscriber with this `ID`")
	c.Flags().IntVar(&limit, "limit", 100, "at most `N` deliveries")
	return c
}

// oneLine formats a text for the last cell of a table: on one line, without characters that control
// a terminal.
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

func deliveryRetryCommand(e Environment) *cobra.Command {
	var dead bool
	var subscriber string // "" for all
	c := databaseCommand(e, &cobra.Command{
		Use:   "retry [ID...]",
		Short: "Send dead letters again, after the other messages of their subscribers, or waiting messages now",
		Args:  cobra.ArbitraryArgs,
		PreRunE: func(_ *cobra.Command, ids []string) error {
			if dead == (len(ids) > 0) {
				return errors.New("either ids or --dead")
			}
			if subscriber != "" && !dead {
				return errors.New("--subscriber is for --dead")
			}
			return nil
		},
	}, func(ctx context.Context, b *service.Backend, ids []string) (err error) {
		retried := len(ids)
		if dead {
			retried, err = b.RetryDeadLetters(ctx, subscriber)
		} else {
			err = b.RetryDeliveries(ctx, ids)
		}
		if err == nil {
			_, err = fmt.Fprintf(e.Out, "%d retried\n", retried)
		}
		return err
	})
	c.Flags().BoolVar(&dead, "dead", false, "all dead letters")
	c.Flags().StringVar(&subscriber, "subscriber", "", "with --dead: only those to the subscriber with this `ID`")
	return c
}
