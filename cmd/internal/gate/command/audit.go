package command

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"opsgate/ratelimit/demand"
)

type audit struct {
	recordFlags

	Top int
}

func auditCommand(e Environment) *cobra.Command {
	a := &audit{}
	c := &cobra.Command{
		Use: "audit", Short: "Prove from recorded demand that no token was admitted more than its limits; exit 1 if one was",
		RunE: func(c *cobra.Command, _ []string) error { return a.run(c.Context(), e) },
	}
	a.addTo(c)
	c.Flags().BoolVar(&a.JSON, "json", false, "print JSON")
	c.Flags().Lookup("config").Usage = "configuration `FILE` whose limits are assumed for records of earlier versions, which have none"
	c.Flags().IntVar(&a.Top, "top", defaultTop, "list the `N` tokens with the fullest windows, and all with violations")
	return c
}

// run prints the fullest window of each token, and fails if one is above its limit.
func (c *audit) run(ctx context.Context, e Environment) error {
	if err := checkTop(c.Top); err != nil {
		return err
	}
	var assumed demand.PoliciesAt
	if c.Config != "" {
		loaded, err := configFile{Config: c.Config}.load(e, 0)
		if err != nil {
			return err
		}
		assumed = policiesAt(loaded)
	}
	report, about, err := readRecords(c.Demand, func(r *demand.Record) (*demand.AuditReport, error) {
		return demand.Audit(r.Events(), demand.AuditOptions{Assumed: assumed, Interruptions: r.Interruptions, Periods: r.Periods})
	})
	if err != nil {
		return err
	}
	if report.Admitted > 0 && report.Unknown == report.Admitted {
		return errors.New("the record has no limits, as earlier versions wrote it: give the configuration of its time as --config")
	}
	view := viewAudit(report, about, c.Top)
	rows := namedRows(view.Tokens, func(t *auditedToken) namedRow { return namedRow{t.TokenID, t.TeamID, &t.tokenNames} })
	if err := c.addNames(ctx, e, rows); err != nil {
		return err
	}
	if c.JSON {
		err = writeJSON(e.Out, view)
	} else {
		err = writeAudit(e.Out, &view)
	}
	if n := report.Violations(); n > 0 {
		return errors.Join(err, fmt.Errorf("%d tokens were admitted more than their limits", n))
	}
	return err
}
