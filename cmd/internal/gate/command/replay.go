package command

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"opsgate/cmd/internal/gate/config"
	"opsgate/cmd/internal/gate/policies"
	"opsgate/cmd/internal/kit/commandline"
	"opsgate/ratelimit"
	"opsgate/ratelimit/demand"
)

type replay struct {
	recordFlags

	Top int

	MaxDenied            percent
	MaxNewlyDenied       bound
	MaxNewlyDeniedTokens int
}

func replayCommand(e Environment) *cobra.Command {
	r := &replay{}
	c := &cobra.Command{
		Use: "replay", Short: "Replay recorded demand under a configuration; exit 1 if the result exceeds a bound",
		RunE: func(c *cobra.Command, _ []string) error { return r.run(c.Context(), e) },
	}
	flags := c.Flags()
	r.addTo(c)
	flags.BoolVar(&r.JSON, "json", false, "print JSON")
	flags.IntVar(&r.Top, "top", defaultTop, "list the `N` tokens with the most newly denied requests")
	commandline.Text(flags, &r.MaxDenied, "max-denied", "", "exit 1 if more requests would be denied than `PERCENT`, for example 5%")
	commandline.Text(flags, &r.MaxNewlyDenied, "max-newly-denied", "",
		"exit 1 if more requests would be newly denied than `BOUND`, for example 0.1% or a number")
	flags.IntVar(&r.MaxNewlyDeniedTokens, "max-newly-denied-tokens", math.MaxInt, "exit 1 if more than `N` tokens have newly denied requests")
	flags.Lookup("max-newly-denied-tokens").DefValue = "0" // not shown
	return c
}

// defaultTop is the default of --top.
const defaultTop = 10

// checkTop returns an error for an invalid --top.
func checkTop(top int) error {
	if top < 0 {
		return commandline.UsageError{Err: errors.New("--top must be 0 or more")}
	}
	return nil
}

// recordFlags has the flags of commands that read records of demand. They need no gateway, but ask the one at --admin for names.
type recordFlags struct {
	queryFlags

	Demand []string
}

func (f *recordFlags) addTo(c *cobra.Command) {
	f.addGateway(c)
	c.Flags().Lookup("admin").Usage = "`ADDR` of the admin listener of a gateway, host:port or URL, to ask for the names of tokens and teams"
	c.Flags().StringArrayVar(&f.Demand, "demand", nil, "record of demand in `FILE`, with FILE.1 beside it; repeat for other gateways")
	commandline.Required(c, "demand")
}

// loadAndWarn loads the configuration, and prints its warnings.
func (f *recordFlags) loadAndWarn(e Environment) (config.Loaded, error) {
	loaded, err := f.load(e, 0)
	for _, warning := range loaded.Warnings {
		fmt.Fprintln(e.Err, "warning:", warning)
	}
	return loaded, err
}

// run prints how the limits of the configuration would have decided the recorded requests. It fails if the result exceeds a bound.
func (c *replay) run(ctx context.Context, e Environment) error {
	if err := checkTop(c.Top); err != nil {
		return err
	}
	if c.MaxNewlyDeniedTokens < 0 {
		return commandline.UsageError{Err: errors.New("--max-newly-denied-tokens must be a number of tokens, 0 or more")}
	}
	loaded, err := c.loadAndWarn(e)
	if err != nil {
		return err
	}
	report, about, err := readRecords(c.Demand, func(r *demand.Record) (*demand.Report, error) {
		return demand.Replay(r.Events(), policiesAt(loaded))
	})
	if err != nil {
		return err
	}
	exceeded := c.exceeded(report)
	view := viewReplay(report, about, c.Top)
	view.Version, view.Exceeded = loaded.Version(), texts(exceeded)
	rows := namedRows(view.Tokens, func(t *tokenResult) namedRow { return namedRow{t.TokenID, t.TeamID, &t.tokenNames} })
	if err := c.addNames(ctx, e, rows); err != nil {
		return err
	}
	if c.JSON {
		err = writeJSON(e.Out, view)
	} else {
		err = writeReplay(e.Out, view)
	}
	return errors.Join(append([]error{err}, exceeded...)...)
}

// readRecords returns the report on the records at the paths, or an error if they have no requests.
func readRecords[T any](files []string, read func(*demand.Record) (T, error)) (report T, about demand.Summary, err error) {
	record, err := demand.Open(files...)
	if err != nil {
		return report, about, err
	}
	defer func() { err = errors.Join(err, record.Close()) }()
	if report, err = read(record); err == nil && !slices.ContainsFunc(record.Periods(), func(p demand.Period) bool { return p.Requests > 0 }) {
		err = errors.New("the record has no requests")
	}
	return report, record.Summary(), err
}

// policiesAt returns a function that returns the policies at a time, without expired ones. It rebuilds them only when one expires.
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

// exceeded returns an error for each bound that the report exceeds.
func (c *replay) exceeded(r *demand.Report) []error {
	var exceeded []error
	if p := c.MaxDenied; p.exceededBy(r.After.Denied, r.Requests) {
		exceeded = append(exceeded, fmt.Errorf("--max-denied=%s is exceeded: %s of the requests would be denied",
			p.text, share(r.After.Denied, r.Requests)))
	}
	if b := c.MaxNewlyDenied; b.exceededBy(r.NewlyDenied, r.Requests) {
		exceeded = append(exceeded, fmt.Errorf("--max-newly-denied=%s is exceeded: %d requests would be newly denied (%s)",
			b.text, r.NewlyDenied, share(r.NewlyDenied, r.Requests)))
	}
	if tokens, most := newlyDeniedTokens(r), c.MaxNewlyDeniedTokens; tokens > most {
		exceeded = append(exceeded, fmt.Errorf("--max-newly-denied-tokens=%d is exceeded: %d tokens would have newly denied requests",
			most, tokens))
	}
	return exceeded
}

// newlyDeniedTokens returns the number of tokens with newly denied requests.
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

// A percent bounds a fraction of all requests. The zero value is no bound.
type percent struct {
	text string  // "" for no bound
	max  float64 // 0 to 100
}

// UnmarshalText implements [encoding.TextUnmarshaler].
func (p *percent) UnmarshalText(text []byte) error {
	number, ok := strings.CutSuffix(string(text), "%")
	limit, err := strconv.ParseFloat(number, 64)
	if !ok || err != nil || !(limit >= 0 && limit <= 100) { // also refuses NaN
		return fmt.Errorf("must be 0%% to 100%%, not %q", text)
	}
	*p = percent{string(text), limit}
	return nil
}

func (p percent) exceededBy(n, all uint64) bool {
	return p.text != "" && float64(n)*100 > p.max*float64(all)
}

// A bound is a percent or a number of requests. The zero value is no bound.
type bound struct {
	percent

	count *uint64 // nil if a percent is given
}

// UnmarshalText implements [encoding.TextUnmarshaler].
func (b *bound) UnmarshalText(text []byte) error {
	if *b = (bound{}); strings.HasSuffix(string(text), "%") {
		return b.percent.UnmarshalText(text)
	}
	count, err := strconv.ParseUint(string(text), 10, 64)
	if err != nil {
		return fmt.Errorf("must be a number of requests, or 0%% to 100%%, not %q", text)
	}
	*b = bound{percent{text: string(text)}, &count}
	return nil
}

func (b bound) exceededBy(n, all uint64) bool {
	if b.count != nil {
		return n > *b.count
	}
	return b.percent.exceededBy(n, all)
}

// share returns n of all in percent.
func share(n, all uint64) string {
	return strconv.FormatFloat(float64(n)/float64(all)*100, 'g', 4, 64) + "%"
}
