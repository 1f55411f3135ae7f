package command

import (
	"errors"
	"fmt"

	"opsgate/ratelimit/demand"
)

type audit struct {
	Demand []string `required:"" sep:"none" placeholder:"FILE" help:"Record of demand, with FILE.1 beside it; repeat for other gateways."`
	Config string   `placeholder:"FILE" help:"Configuration whose limits are assumed for records of earlier versions, which have none."`
	JSON   bool     `name:"json" help:"Print JSON."`
	Top    int      `default:"10" placeholder:"N" help:"List the N tokens with the fullest windows, and all with violations (${default})."`
}

// Validate implements kong's check of a command's arguments.
func (c *audit) Validate() error {
	if c.Top < 0 {
		return errors.New("--top must be 0 or more")
	}
	return nil
}

// Run prints the fullest window of each token, and fails if one is above its limit.
func (c *audit) Run(e Environment) error {
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
