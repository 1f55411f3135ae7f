package command

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"opsgate/cmd/internal/backend/service"
)

func verifyCommand(e Environment) *cobra.Command {
	var dir dataDir
	var repair bool
	c := &cobra.Command{
		Use: "verify", Short: "Look for faults of the database, while servers use it or not",
		Long: `Look for faults of the database, while servers use it or not.

Each fault is a line: a damaged file, references to missing rows, deliveries that are never sent, rows from the future. Exit code 1 if
there are faults.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return dir.use(c.Context(), e, func(b *service.Backend) error {
				if repair {
					changed, err := b.Store().RepairTimes(c.Context(), e.Clock)
					if err != nil {
						return err
					}
					fmt.Fprintln(e.Out, changed, "times moved to the present")
				}
				faults, err := b.Store().Verify(c.Context(), e.Clock())
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
		},
	}
	dir.addTo(c)
	c.Flags().BoolVar(&repair, "repair-times", false,
		"first move times from the future to the present, in their order: the clock was set forward by mistake")
	return c
}
