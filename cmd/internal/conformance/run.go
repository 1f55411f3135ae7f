package conformance

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"slices"
	"time"
)

// Options say what is looked at, and how.
type Options struct {
	// Addresses are those of the services, by name. What is of a service without one is skipped.
	Addresses map[string]string
	// TLS is how the services are called; nil means without.
	TLS      *tls.Config
	Fixtures Fixtures
	// Checks are those to make.
	Checks []Check
	// Writes allows checks that create incidents.
	Writes bool
	// Timeout bounds each call; 0 means DefaultTimeout.
	Timeout time.Duration
	// Silence is how long a stream of revocations may be silent; 0 means DefaultSilence.
	Silence time.Duration
	// Grace is how much longer than its deadline a call may take; 0 means DefaultGrace.
	Grace time.Duration
	// Clock tells the time; nil means the system's.
	Clock func() time.Time
}

// Defaults of the options that have one.
const (
	DefaultTimeout = 10 * time.Second
	DefaultSilence = 11 * time.Second // ten of the contract, and one for the way
	DefaultGrace   = time.Second
)

// An Outcome is what became of a check.
type Outcome string

// Outcomes.
const (
	Pass Outcome = "pass"
	Fail Outcome = "fail"
	Skip Outcome = "skip"
)

// A Result is what a check has shown.
type Result struct {
	Name     string  `json:"name"`
	Method   string  `json:"method"`
	Sentence string  `json:"sentence"`
	Outcome  Outcome `json:"outcome"`
	// Breaches are set where it failed: what had to come, and what came.
	Breaches []Breach `json:"breaches,omitempty"`
	// Why is set where it was skipped.
	Why     string  `json:"why,omitempty"`
	Seconds float64 `json:"seconds"`
}

// A Breach is one way in which a service does not do what the contract says.
type Breach struct {
	Expected string `json:"expected"`
	Got      string `json:"got"`
}

// A Report is what all checks have shown.
type Report struct {
	Passed  int      `json:"passed"`
	Failed  int      `json:"failed"`
	Skipped int      `json:"skipped"`
	Results []Result `json:"results"`
}

// Run makes the checks, one after the other. Its error says why they could not be made, or that ctx has ended; what the checks have shown
// until then is reported.
func Run(ctx context.Context, o Options) (report Report, err error) {
	o.fill()
	s, err := newSubject(o)
	if err != nil {
		return report, err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	for _, check := range o.Checks {
		result := check.result(ctx, s, o)
		if err := context.Cause(ctx); err != nil {
			return report, fmt.Errorf("make the checks: %w", err)
		}
		report.add(result)
	}
	return report, nil
}

func (o *Options) fill() {
	if o.Timeout == 0 {
		o.Timeout = DefaultTimeout
	}
	if o.Silence == 0 {
		o.Silence = DefaultSilence
	}
	if o.Grace == 0 {
		o.Grace = DefaultGrace
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

// result makes the check, if it can be made.
func (c Check) result(ctx context.Context, s *subject, o Options) Result {
	started := o.Clock()
	r := Result{Name: c.Name, Method: c.Method(), Sentence: c.Sentence, Outcome: Pass}
	err := c.possible(o)
	if err == nil {
		err = c.look(ctx, s)
	}
	r.Seconds = o.Clock().Sub(started).Seconds()
	if why, ok := errors.AsType[*notApplicable](err); ok && len(breachesOf(err)) == 0 {
		r.Outcome, r.Why = Skip, why.why
	} else if err != nil {
		r.Outcome, r.Breaches = Fail, slices.Compact(breachesOf(err)) // both ways round, it may be the same
	}
	return r
}

// possible returns why the check is not to be made, if it is not.
func (c Check) possible(o Options) error {
	if o.Addresses[c.Service()] == "" {
		return noConn{c.Service()}.why()
	}
	if c.Writes && !o.Writes {
		return skip("it calls a method that writes, which was not allowed")
	}
	for _, thing := range c.Needs {
		for _, team := range o.Fixtures.Teams {
			if team.Things[thing] == "" {
				return skip("the fixtures name no %s of team %s", thing, team.ID)
			}
		}
	}
	return nil
}

// breachesOf takes the errors of a check apart. That of a call which had to succeed is a breach as well.
func breachesOf(err error) []Breach {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		var list []Breach
		for _, each := range joined.Unwrap() {
			list = append(list, breachesOf(each)...)
		}
		return list
	}
	if _, ok := errors.AsType[*notApplicable](err); ok || err == nil {
		return nil
	}
	if b, ok := errors.AsType[*breach](err); ok {
		return []Breach{{Expected: b.want, Got: b.got}}
	}
	return []Breach{{Expected: "an answer", Got: ended(err)}}
}
