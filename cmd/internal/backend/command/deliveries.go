package command

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"opsgate/cmd/internal/backend/service"
	"opsgate/cmd/internal/kit/commandline"
)

type deliveryGroup struct {
	List  deliveryList  `cmd:"" help:"List deliveries, newest first."`
	Retry deliveryRetry `cmd:"" help:"Send dead letters again, after the other messages of their subscribers."`
}

type deliveryList struct {
	dataDir

	State      string `enum:",waiting,dead,delivered" default:"" placeholder:"STATE" help:"Only those that are waiting, dead or delivered."`
	Subscriber string `placeholder:"ID" help:"Only deliveries to this subscriber."`
	Limit      int    `default:"100" placeholder:"N" help:"Maximum number of deliveries (${default})."`
}

// Run lists the deliveries.
func (c *deliveryList) Run(ctx context.Context, e Environment) error {
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

	IDs        []string `arg:"" optional:"" name:"id" help:"Ids of dead letters."`
	Dead       bool     `help:"All dead letters."`
	Subscriber string   `placeholder:"ID" help:"With --dead: only those to this subscriber."`
}

// Run retries dead letters.
func (c *deliveryRetry) Run(ctx context.Context, e Environment) error {
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
