package gatewaycmd

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"opsgate/cmd/internal/config"
	"opsgate/cmd/internal/policies"
	"opsgate/ratelimit"
	"opsgate/ratelimit/demand"
)

type replay struct {
	configFile

	Demand []string `required:"" sep:"none" placeholder:"FILE" help:"Record of demand, with FILE.1 beside it; once for each gateway's."`
	JSON   bool     `name:"json" help:"Print JSON."`
	Top    int      `default:"10" placeholder:"N" help:"List the N tokens of which most requests would be newly denied (${default})."`

	MaxDenied            percent `placeholder:"PERCENT" help:"Exit 1 if more of the requests would be denied, as 5%."`
	MaxNewlyDenied       bound   `placeholder:"BOUND" help:"Exit 1 if more would be denied that were admitted, as 0.1% of all or a number."`
	MaxNewlyDeniedTokens *int    `placeholder:"N" help:"Exit 1 if that happened to more tokens."`
}

// Validate implements kong's check of a command's arguments.
func (c *replay) Validate() error {
	if c.Top < 0 || c.MaxNewlyDeniedTokens != nil && *c.MaxNewlyDeniedTokens < 0 {
		return errors.New("--top and --max-newly-denied-tokens are 0 or more")
	}
	return nil
}

// Run tells what the limits of the configuration would have made of the recorded requests. It fails if that passes a bound.
func (c *replay) Run(e Environment) error {
	loaded, err := c.load(e)
	if err != nil {
		return err
	}
	for _, warning := range loaded.Warnings {
		fmt.Fprintln(e.Err, "warning:", warning)
	}
	report, about, err := simulate(loaded, c.Demand)
	if err != nil {
		return err
	}
	if report.Requests == 0 {
		return errors.New("the record has no requests: nothing can be told of these limits")
	}
	passed := c.passed(report)
	view := viewReplay(report, about, c.Top)
	view.Version, view.Passed = loaded.Version(), texts(passed)
	if c.JSON {
		encoder := json.NewEncoder(e.Out)
		encoder.SetIndent("", "  ")
		err = encoder.Encode(view)
	} else {
		err = writeReplay(e.Out, view)
	}
	return errors.Join(append([]error{err}, passed...)...)
}

// simulate replays the records under the policies of the configuration.
func simulate(loaded config.Loaded, files []string) (_ *demand.Report, _ demand.Summary, err error) {
	record, err := demand.Open(files...)
	if err != nil {
		return nil, demand.Summary{}, err
	}
	defer func() { err = errors.Join(err, record.Close()) }()
	report, err := demand.Replay(record.Events(), policiesAt(loaded))
	return report, record.Summary(), err
}

// policiesAt returns the policies of the configuration at any time: what has expired by then is left out. They are made anew only where
// something expires.
func policiesAt(loaded config.Loaded) demand.PoliciesAt {
	var current *ratelimit.Policies
	var from, until time.Time
	return func(at time.Time) (*ratelimit.Policies, error) {
		if current != nil && !at.Before(from) && (until.IsZero() || at.Before(until)) {
			return current, nil
		}
		next, err := policies.New(loaded, at, current)
		if err != nil {
			return nil, err
		}
		current, from, until = next, at, policies.NextExpiry(next)
		return current, nil
	}
}

// passed returns the bounds that the report passes.
func (c *replay) passed(r *demand.Report) []error {
	var passed []error
	if p := c.MaxDenied; p.given && p.isPassed(r.After.Denied, r.Requests) {
		passed = append(passed, fmt.Errorf("--max-denied=%s is passed: %s of the requests would be denied",
			p.text, share(r.After.Denied, r.Requests)))
	}
	if b := c.MaxNewlyDenied; b.isPassed(r.NewlyDenied, r.Requests) {
		passed = append(passed, fmt.Errorf("--max-newly-denied=%s is passed: %d requests would be newly denied, %s of them",
			b.text, r.NewlyDenied, share(r.NewlyDenied, r.Requests)))
	}
	if tokens := newlyDeniedTokens(r); c.MaxNewlyDeniedTokens != nil && tokens > *c.MaxNewlyDeniedTokens {
		passed = append(passed, fmt.Errorf("--max-newly-denied-tokens=%d is passed: of %d tokens requests would be newly denied",
			*c.MaxNewlyDeniedTokens, tokens))
	}
	return passed
}

// newlyDeniedTokens returns of how many tokens requests would be newly denied.
func newlyDeniedTokens(r *demand.Report) int {
	n := 0
	for n < len(r.Tokens) && r.Tokens[n].NewlyDenied > 0 { // these come first
		n++
	}
	return n
}

func texts(errs []error) []string {
	list := make([]string, len(errs))
	for i, err := range errs {
		list[i] = err.Error()
	}
	return list
}

// A percent bounds a part of all requests. Its zero value bounds nothing.
type percent struct {
	given bool
	text  string
	most  float64 // 0 to 100
}

// UnmarshalText implements [encoding.TextUnmarshaler].
func (p *percent) UnmarshalText(text []byte) error {
	number, ok := strings.CutSuffix(string(text), "%")
	most, err := strconv.ParseFloat(number, 64)
	if !ok || err != nil || !(most >= 0 && most <= 100) { // the other way round, it would take NaN
		return fmt.Errorf("is 0%% to 100%%, not %q", text)
	}
	*p = percent{given: true, text: string(text), most: most}
	return nil
}

func (p percent) isPassed(n, all uint64) bool { return float64(n)*100 > p.most*float64(all) }

// A bound is a percent or a number of requests. Its zero value bounds nothing.
type bound struct {
	percent

	count uint64 // where no percent is given
}

// UnmarshalText implements [encoding.TextUnmarshaler].
func (b *bound) UnmarshalText(text []byte) error {
	if strings.HasSuffix(string(text), "%") {
		b.count = 0
		return b.percent.UnmarshalText(text)
	}
	count, err := strconv.ParseUint(string(text), 10, 64)
	if err != nil {
		return fmt.Errorf("is a number of requests, or 0%% to 100%%, not %q", text)
	}
	*b = bound{percent: percent{text: string(text)}, count: count}
	return nil
}

func (b bound) isPassed(n, all uint64) bool {
	switch {
	case b.given:
		return b.percent.isPassed(n, all)
	case b.text == "":
		return false
	}
	return n > b.count
}

// share says a part in percent.
func share(n, all uint64) string {
	return strconv.FormatFloat(float64(n)/float64(all)*100, 'g', 4, 64) + "%"
}
