package accesslog

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sort"
	"strings"
	"time"

	"opsgate/cmd/internal/gate/config"
	"opsgate/ratelimit"
)

// A Suggestion is the smallest limits of each class that would have denied its tokens at most a
// part of their requests.
type Suggestion struct {
	Summary

	Classes []ClassSuggestion `json:"classes"`       // with requests, in the order of the configuration
	Denied  []TokenReport     `json:"denied_tokens"` // the most first
}

// A ClassSuggestion is the limits of a class.
type ClassSuggestion struct {
	Key          string `json:"key"`        // of the configuration
	Limits       string `json:"limits"`     // as YAML
	Configured   string `json:"configured"` // the present limits
	Requests     uint64 `json:"requests"`
	Denied       uint64 `json:"denied"`
	Tokens       int    `json:"tokens"`
	DeniedTokens int    `json:"tokens_denied"`
}

// Suggest returns the smallest limits of the lengths of those in the configuration, under which a
// token of a class would have been denied at most denyAtMost percent of its requests, on average.
// All tokens weigh equally, and a few that are denied the largest part are not in the average.
// Limits are smallest if each of them, made smaller alone, would deny too much. Overrides that have
// expired by now do not count, as in Replay.
func (log *Log) Suggest(loaded config.Loaded, now time.Time, denyAtMost float64) (*Suggestion, error) {
	if err := log.checkComplete(); err != nil {
		return nil, err
	}
	current, err := config.NewPolicies(loaded, now, nil)
	if err != nil {
		return nil, fmt.Errorf("policies of the configuration: %w", err)
	}
	s := &Suggestion{Summary: log.Summary, Denied: []TokenReport{}}
	if per := longest(loaded); log.To.Sub(log.From) < 3*per {
		s.Warnings = append(s.Warnings, "the log is shorter than three times the longest limit, "+config.DurationText(per))
	}
	for _, c := range classesOf(log, current) {
		c.suggest(denyAtMost)
		_, denied := c.simulate()
		for _, t := range denied {
			c.Denied += t.DeniedAfter
		}
		c.DeniedTokens, c.Limits = len(denied), limitsText(c.limits)
		s.Classes, s.Denied = append(s.Classes, c.ClassSuggestion), append(s.Denied, denied...)
	}
	slices.SortStableFunc(s.Denied, func(x, y TokenReport) int { return cmp.Compare(y.DeniedAfter, x.DeniedAfter) })
	return s, nil
}

// checkComplete returns an error if more than 1 % of the requests are missing, of the log or of one
// class.
func (s *Summary) checkComplete() error {
	check := func(of string, requests, missing uint64) error {
		if part := float64(missing) / float64(requests+missing); part > 0.01 {
			return fmt.Errorf("%.1f%% of the requests%s have no line: %s", part*100, of, withoutLine)
		}
		return nil
	}
	errs := []error{check("", s.Requests, s.Missing)}
	for _, class := range slices.Sorted(maps.Keys(s.requestsOf)) {
		errs = append(errs, check(" of class "+class, s.requestsOf[class], s.missingOf[class]))
	}
	return errors.Join(errs...)
}

// limitsText returns limits as YAML.
func limitsText(limits []ratelimit.Limit) string {
	texts := make([]string, len(limits))
	for i, l := range limits {
		texts[i] = fmt.Sprintf("{name: %s, requests: %d, per: %s}", l.Name, l.Requests, config.DurationText(l.Per))
	}
	return "[" + strings.Join(texts, ", ") + "]"
}

// A class is the tokens that an assignment applies to, and its limits in the making.
type class struct {
	ClassSuggestion

	tokens  []*token
	busiest uint64            // requests of the token with the most
	second  uint64            // of the next one
	limits  []ratelimit.Limit // without those in shadow, by length
}

// classesOf returns the classes with requests in the order of the configuration.
func classesOf(log *Log, policies *ratelimit.Policies) []*class {
	list := make([]*class, len(policies.All()))
	for i, a := range policies.All() {
		limits := slices.DeleteFunc(slices.Clone(a.Policy.Limits()), func(l ratelimit.Limit) bool { return l.Shadow })
		slices.SortFunc(limits, func(x, y ratelimit.Limit) int { return cmp.Compare(x.Per, y.Per) })
		list[i] = &class{ClassSuggestion: ClassSuggestion{Key: a.Key, Configured: limitsText(limits)}, limits: limits}
	}
	for _, t := range log.tokens {
		c, n := list[policies.For(t.team, t.id, t.class).Index()], uint64(len(t.requests))
		c.tokens = append(c.tokens, t)
		c.Requests, c.Tokens = c.Requests+n, len(c.tokens)
		c.second = max(c.second, min(c.busiest, n))
		c.busiest = max(c.busiest, n)
	}
	return slices.DeleteFunc(list, func(c *class) bool { return c.Requests == 0 })
}

// leftOut returns how many tokens cannot raise the limits, whatever they request: one of each
// hundred, and at least one of ten. Of three to nine, a customer with more requests than others
// would be one of few: one is left out only if it is an outlier.
func (c *class) leftOut() int {
	switch {
	case len(c.tokens) >= 10:
		return max(1, len(c.tokens)/100)
	case len(c.tokens) >= 3 && c.busiest > 10*c.second:
		return 1
	}
	return 0
}

// suggest finds the limits. It starts with limits that deny nothing. Then each limit in turn, from
// the shortest, is made as small as its equal part of the denials permits, and then as small as the
// rest permits.
func (c *class) suggest(denyAtMost float64) {
	for i := range c.limits {
		c.limits[i].Requests = int(c.busiest)
	}
	most := denyAtMost / 100 * float64(len(c.tokens)-c.leftOut())
	for i := range c.limits {
		c.shrink(i, most*float64(i+1)/float64(len(c.limits)))
	}
	for changed := len(c.limits) > 1; changed; {
		before := slices.Clone(c.limits)
		for i := range c.limits {
			c.shrink(i, most)
		}
		changed = !slices.Equal(before, c.limits)
	}
}

// shrink makes a limit the smallest with which the sum of the tokens' denied parts is at most that,
// if the present one does. A larger limit denies no more, except that one of more than MaxExact may
// count an admission for longer than one of MaxExact does.
func (c *class) shrink(i int, most float64) {
	requests := &c.limits[i].Requests
	suffices := func(n int) bool {
		*requests = n
		sum, _ := c.simulate()
		return sum <= most+1e-9 // more than the rounding errors, and less than a part
	}
	low, high := 1, *requests // high suffices
	if high > ratelimit.MaxExact {
		if suffices(ratelimit.MaxExact) {
			high = ratelimit.MaxExact
		} else {
			low = ratelimit.MaxExact + 1
		}
	}
	*requests = low + sort.Search(high-low, func(n int) bool { return suffices(low + n) })
}

// simulate decides the requests of the class under its limits. It returns the sum of the denied
// part of each token, without the largest ones, and the tokens with denied requests.
func (c *class) simulate() (sum float64, denied []TokenReport) {
	policy, _ := ratelimit.NewPolicy(c.limits) // the configuration has them, with other numbers
	parts, s := make([]float64, len(c.tokens)), newSimulation()
	for i, t := range c.tokens {
		report := t.report()
		s.run(t, policy, report.compare)
		if report.DeniedAfter > 0 {
			report.Key = c.Key
			denied = append(denied, report)
		}
		parts[i] = float64(report.DeniedAfter) / float64(report.Requests)
	}
	slices.Sort(parts)
	for _, part := range parts[:len(parts)-c.leftOut()] {
		sum += part
	}
	return sum, denied
}
