package command

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"opsgate/cmd/internal/backend/service"
)

func verifyCommand(e Environment) *cobra.Command {
	var repair bool
	c := databaseCommand(e, &cobra.Command{
		Use: "verify", Short: "Look for faults of the database, while servers use it or not",
		Long: `Look for faults of the database, while servers use it or not.

Each fault is a line: a damaged file, references to missing rows, deliveries that are never sent,
rows from the future. Exit code 1 if there are faults.`,
	}, func(ctx context.Context, b *service.Backend, _ []string) error {
		if repair {
			changed, err := b.Store().RepairTimes(ctx, e.Clock)
			if err != nil {
				return err
			}
			fmt.Fprintln(e.Out, changed, "times moved to the present")
		}
		faults, err := b.Store().Verify(ctx, e.Clock())
		if err != nil {
			return err
		}
		if len(faults) == 0 {
			_, err = fmt.Fprintln(e.Out, "no faults")
			return err
		}
		_, err = fmt.Fprintln(e.Out, strings.Join(faults, "\n"))
		return errors.Join(err, fmt.Errorf("%d faults in %s", len(faults), b.Store().Dir()))
	})
	c.Flags().BoolVar(&repair, "repair-times", false,
		"first move times from the future to the present, in their order: the clock was set forward by mistake")
	return c
}
