package conformance

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"slices"
	"time"
)

// Options are the settings of a run.
type Options struct {
	// Addresses are the addresses of the services, by name. Checks of a service without address are skipped.
	Addresses map[string]string
	// TLS configures the calls; nil means plaintext.
	TLS      *tls.Config
	Fixtures Fixtures
	// Checks are the checks to run.
	Checks []Check
	// Writes allows checks that create incidents.
	Writes bool
	// Timeout bounds each call; 0 means 10 seconds.
	Timeout time.Duration
	// HeartbeatTimeout is the maximum time between two messages of a revocation stream; 0 means 11 seconds.
	HeartbeatTimeout time.Duration
	// Grace is how long after its deadline a call may end; 0 means one second.
	Grace time.Duration
	// Clock returns the time; nil means time.Now.
	Clock func() time.Time
}

// Defaults of the options.
const (
	defaultTimeout          = 10 * time.Second
	defaultHeartbeatTimeout = 11 * time.Second // the contract's ten seconds, and one for delays
	defaultGrace            = time.Second
)

// An Outcome is the outcome of a check.
type Outcome string

// Outcomes.
const (
	Pass Outcome = "pass"
	Fail Outcome = "fail"
	Skip Outcome = "skip"
)

// A Result is the result of a check.
type Result struct {
	Name     string  `json:"name"`
	Method   string  `json:"method"`
	Sentence string  `json:"sentence"`
	Outcome  Outcome `json:"outcome"`
	// Breaches are set if the check failed.
	Breaches []Breach `json:"breaches,omitempty"`
	// Reason is set if the check was skipped.
	Reason  string  `json:"why,omitempty"`
	Seconds float64 `json:"seconds"`
}

// A Breach is one difference between the contract and a service.
type Breach struct {
	Expected string `json:"expected"`
	Got      string `json:"got"`
}

// A Report holds the results of all checks.
type Report struct {
	Passed  int      `json:"passed"`
	Failed  int      `json:"failed"`
	Skipped int      `json:"skipped"`
	Results []Result `json:"results"`
}

// Run runs the checks, one after the other. If it returns an error (an invalid address, or the end of ctx), the report has the results
// until then.
func Run(ctx context.Context, o Options) (report Report, err error) {
	o.setDefaults()
	s, err := newSubject(o)
	if err != nil {
		return report, err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	for _, check := range o.Checks {
		result := check.result(ctx, s, o)
		if err := context.Cause(ctx); err != nil {
			return report, fmt.Errorf("run the checks: %w", err)
		}
		report.add(result)
	}
	return report, nil
}

func (o *Options) setDefaults() {
	if o.Timeout == 0 {
		o.Timeout = defaultTimeout
	}
	if o.HeartbeatTimeout == 0 {
		o.HeartbeatTimeout = defaultHeartbeatTimeout
	}
	if o.Grace == 0 {
		o.Grace = defaultGrace
	}
	if o.Clock == nil {
		o.Clock = time.Now
	}
}

func (r *Report) add(result Result) {
	r.Results = append(r.Results, result)
	switch result.Outcome {
	case Pass:
		r.Passed++
	case Fail:
		r.Failed++
	case Skip:
		r.Skipped++
	}
}

// result runs the check, if that is possible.
func (c Check) result(ctx context.Context, s *subject, o Options) Result {
	started := o.Clock()
	r := Result{Name: c.Name, Method: c.Method(), Sentence: c.Sentence, Outcome: Pass}
	err := c.checkPreconditions(o)
	if err == nil {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel() // ends the streams of the check
		err = try(func() { c.run(&probe{subject: s, ctx: ctx, method: c.method, own: s.teams[0], other: s.teams[1]}) })
	}
	r.Seconds = o.Clock().Sub(started).Seconds()
	if skipped, ok := errors.AsType[*notApplicable](err); ok && len(breachesOf(err)) == 0 {
		r.Outcome, r.Reason = Skip, skipped.reason
	} else if err != nil {
		r.Outcome, r.Breaches = Fail, slices.Compact(breachesOf(err)) // both teams may have the same breach
	}
	return r
}

// checkPreconditions returns a *notApplicable if the check has to be skipped.
func (c Check) checkPreconditions(o Options) error {
	if o.Addresses[c.Service()] == "" {
		return noConn{c.Service()}.skip()
	}
	if c.Writes && !o.Writes {
		return skip("it calls a method that writes, which is not allowed without --writes")
	}
	for _, kind := range c.Needs {
		for _, team := range o.Fixtures.Teams {
			if team.Resources[kind] == "" {
				return skip("the fixtures name no %s of team %s", kind, team.ID)
			}
		}
	}
	return nil
}
