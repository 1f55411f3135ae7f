package command

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"opsgate/ratelimit/demand"
)

type audit struct {
	Demand []string
	Config string
	JSON   bool
	Top    int
}

func auditCommand(e Environment) *cobra.Command {
	a := &audit{}
	c := &cobra.Command{
		Use: "audit", Short: "Prove from recorded demand that no token was admitted more than its limits; exit 1 if one was",
		RunE: func(*cobra.Command, []string) error { return a.run(e) },
	}
	flags := c.Flags()
	addDemand(c, &a.Demand)
	flags.StringVar(&a.Config, "config", "", "configuration `FILE` whose limits are assumed for records of earlier versions, which have none")
	flags.BoolVar(&a.JSON, "json", false, "print JSON")
	flags.IntVar(&a.Top, "top", defaultTop, "list the `N` tokens with the fullest windows, and all with violations")
	return c
}

// run prints the fullest window of each token, and fails if one is above its limit.
func (c *audit) run(e Environment) error {
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
	report, about, err := auditRecords(assumed, c.Demand)
	if err != nil {
		return err
	}
	if report.Requests == 0 {
		return errors.New("the record has no requests")
	}
	if report.Admitted > 0 && report.Unknown == report.Admitted {
		return errors.New("the record has no limits, as earlier versions wrote it: give the configuration of its time as --config")
	}
	view := viewAudit(report, about, c.Top)
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

// auditRecords audits the records with the policies that are assumed, if any, for requests without a policy.
func auditRecords(assumed demand.PoliciesAt, files []string) (_ *demand.AuditReport, _ demand.Summary, err error) {
	record, err := demand.Open(files...)
	if err != nil {
		return nil, demand.Summary{}, err
	}
	defer func() { err = errors.Join(err, record.Close()) }()
	report, err := demand.Audit(record.Events(), demand.AuditOptions{
		Assumed: assumed, Interruptions: record.Interruptions, Periods: record.Periods,
	})
	return report, record.Summary(), err
}
