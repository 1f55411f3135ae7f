package conformance

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"slices"
	"time"
)

// Options are the settings of a run.
type Options struct {
	// Addresses are the addresses of the services, by name. Checks of a service without address are
	// skipped.
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
	// HeartbeatTimeout is the maximum time between two messages of a revocation stream; 0 means 11
	// seconds.
	HeartbeatTimeout time.Duration
	// Grace is how long after its deadline a call may end; 0 means one second.
	Grace time.Duration
	// Clock returns the time; nil means time.Now.
	Clock func() time.Time
}

func (o *Options) setDefaults() {
	o.Timeout = cmp.Or(o.Timeout, 10*time.Second)
	o.HeartbeatTimeout = cmp.Or(o.HeartbeatTimeout, 11*time.Second) // the contract's ten seconds, and one for delays
	o.Grace = cmp.Or(o.Grace, time.Second)
	if o.Clock == nil {
		o.Clock = time.Now
	}
}

// Run runs the checks, one after the other. If it returns an error (an invalid address, or the end
// of ctx), the report has the results until then.
func Run(ctx context.Context, o Options) (report Report, err error) {
	o.setDefaults()
	s, err := newSubject(o)
	if err != nil {
		return report, err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	report.NotChecked = notChecked()
	for _, check := range o.Checks {
		result := check.result(ctx, s)
		if err := context.Cause(ctx); err != nil {
			return report, fmt.Errorf("run the checks: %w", err)
		}
		report.add(result)
	}
	return report, nil
}

// result runs the check, if that is possible.
func (c Check) result(ctx context.Context, s *subject) Result {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // ends the streams of the check
	started := s.Clock()
	r := Result{Name: c.Name, Method: c.Method(), Sentence: c.Sentence, Outcome: Pass}
	err := c.checkPreconditions(s.Options)
	if err == nil {
		p := &probe{subject: s, ctx: ctx, method: c.method, own: s.Fixtures.Teams[0], other: s.Fixtures.Teams[1]}
		err = try(func() { c.run(p) })
	}
	r.Seconds = s.Clock().Sub(started).Seconds()
	r.Breaches = slices.Compact(breachesOf(err)) // both teams may have the same breach
	if u, ok := errors.AsType[*undecided](err); ok && len(r.Breaches) == 0 {
		r.Outcome, r.Reason = u.outcome, u.reason
	} else if err != nil {
		r.Outcome = Fail
	}
	return r
}

// checkPreconditions returns an *undecided if the check cannot run.
func (c Check) checkPreconditions(o Options) error {
	if o.Addresses[c.Service()] == "" {
		return noConn{c.Service()}.skip()
	}
	if c.Writes && !o.Writes {
		return skip("it calls a method that writes, which is not allowed without --writes")
	}
	return nil
}
