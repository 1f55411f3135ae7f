package demand

import (
	"cmp"
	"fmt"
	"iter"
	"math"
	"slices"
	"sort"
	"time"

	"opsgate/ratelimit"
)

// SuggestOptions are the options of a suggestion.
type SuggestOptions struct {
	Policies PoliciesAt // those at the end of the record decide to which class a token belongs
	// DenyAtMost is the percentage of its requests that a token of a class is denied at most, on average: 0 to 100. All tokens weigh
	// equally, and a few that are denied the largest part are not in the average.
	DenyAtMost float64
	Per        []time.Duration // lengths of the limits; none for those of the enforced limits of each class
}

// outlier is how many times the requests of the next token one has that cannot raise the limits of a small class.
const outlier = 10

// leftOut returns how many tokens cannot raise the limits, whatever they request: one of each hundred, and at least one of ten. Of three to
// nine, a customer with more requests than others would be one of few: one is left out only if it is an outlier.
func (c *class) leftOut() int {
	switch {
	case c.Tokens >= 10:
		return max(1, c.Tokens/100)
	case c.Tokens >= 3 && c.busiest > outlier*c.second:
		return 1
	}
	return 0
}

// A Suggestion is the smallest limits of each class that would have denied its tokens at most a part of their requests.
type Suggestion struct {
	Total

	Tokens int
	Window time.Duration // length of the longest limit

	Classes []ClassSuggestion // in the order of the configuration
}

// A ClassSuggestion is the limits of a class.
type ClassSuggestion struct {
	Assignment *ratelimit.Assignment
	Requests   uint64
	Limits     []ratelimit.Limit // in ascending order of length; none if the record has no request of the class
	Tokens     int
	Denied     []DeniedToken // those with denied requests, in descending order
}

// DeniedRequests returns the number of requests that the limits would have denied.
func (c *ClassSuggestion) DeniedRequests() (n uint64) {
	for _, t := range c.Denied {
		n += t.Denied
	}
	return n
}

// A DeniedToken is a token with requests that the suggested limits would have denied.
type DeniedToken struct {
	TokenID, TeamID  string
	Requests, Denied uint64
}

// Suggest returns the smallest limits for the recorded requests. The limits of a class are smallest if each of them, made smaller alone,
// would deny too much. It keeps 16 bytes of each event. The same events and policies give the same limits.
func Suggest(events iter.Seq2[Event, error], o SuggestOptions) (*Suggestion, error) {
	s := new(Suggestion)
	subjects := make(map[string]*subject)
	for e, err := range events {
		if err != nil {
			return nil, fmt.Errorf("read the record: %w", err)
		}
		t := subjects[e.TokenID]
		if t == nil {
			t = &subject{id: e.TokenID}
			subjects[e.TokenID] = t
		}
		t.add(&e)
		if e.isRequest() {
			s.count(e.At)
		}
	}
	policies, err := o.Policies(s.To)
	if err != nil {
		return nil, fmt.Errorf("policies of %v: %w", s.To, err)
	}
	for _, class := range classes(subjects, policies) {
		if err := class.suggest(o); err != nil {
			return nil, err
		}
		s.Tokens += class.Tokens
		for _, l := range class.Limits {
			s.Window = max(s.Window, l.Per)
		}
		s.Classes = append(s.Classes, class.ClassSuggestion)
	}
	return s, nil
}

// A subject is the recorded events of a token.
type subject struct {
	id, team string
	requests uint64
	steps    []step
}

// A step is an event. Its time is in µs since 1970.
type step struct {
	at   int64
	what int32 // stepAdmitted, stepDenied or stepReset, or the index of the request whose admission is refunded
}

// The kinds of steps. Whether a request was admitted is that of the record.
const (
	stepAdmitted = -1
	stepDenied   = -2
	stepReset    = -3
)

func (t *subject) add(e *Event) {
	what := int32(stepAdmitted)
	switch {
	case e.Reset:
		what = stepReset
	case !e.RefundOf.IsZero():
		if what = t.admission(e.RefundOf.UnixMicro()); what < 0 {
			return // from before the record
		}
	default:
		t.requests++
		if t.team = e.TeamID; !e.Allowed {
			what = stepDenied
		}
	}
	t.steps = append(t.steps, step{e.At.UnixMicro(), what})
}

// admission returns the index of the first admission at a time that no other refund has, or -1.
func (t *subject) admission(at int64) int32 {
	first := int32(-1)
	for i := len(t.steps) - 1; i >= 0 && t.steps[i].at >= at-maxDelay.Microseconds(); i-- {
		admission := t.steps[i].at == at && t.steps[i].what == stepAdmitted
		if admission && !slices.ContainsFunc(t.steps[i:], func(s step) bool { return s.what == int32(i) }) {
			first = int32(i)
		}
	}
	return first
}

// A class is a ClassSuggestion and the events of its tokens.
type class struct {
	ClassSuggestion
	subjects []*subject
	busiest  uint64 // requests of the token with the most
	second   uint64 // of the next one
}

// classes returns the classes in the order of the configuration, each with its tokens in the order of their ids.
func classes(subjects map[string]*subject, policies *ratelimit.Policies) []*class {
	list := make([]*class, len(policies.All()))
	for i, a := range policies.All() {
		list[i] = &class{ClassSuggestion: ClassSuggestion{Assignment: a}}
	}
	for _, t := range subjects {
		if t.requests == 0 {
			continue
		}
		c := list[policies.For(t.team, t.id).Index()]
		c.subjects = append(c.subjects, t)
		c.Requests += t.requests
		c.Tokens++
		c.second = max(c.second, min(c.busiest, t.requests))
		c.busiest = max(c.busiest, t.requests)
	}
	for _, c := range list {
		slices.SortFunc(c.subjects, func(x, y *subject) int { return cmp.Compare(x.id, y.id) })
	}
	return list
}

// suggest finds the limits and the requests that they deny. It starts with limits that deny nothing. Then each limit in turn, from the
// shortest, is made as small as its equal part of the denials permits, and then as small as the rest permits.
func (c *class) suggest(o SuggestOptions) error {
	if c.Requests == 0 {
		return nil
	}
	c.Limits = c.lengths(o.Per)
	most := o.DenyAtMost / 100 * float64(c.Tokens-c.leftOut())
	parts := len(c.Limits)
	for i := range c.Limits {
		if err := c.shrink(i, most*float64(i+1)/float64(parts)); err != nil {
			return err
		}
	}
	for changed := parts > 1; changed; {
		before := slices.Clone(c.Limits)
		for i := range c.Limits {
			if err := c.shrink(i, most); err != nil {
				return err
			}
		}
		changed = !slices.Equal(before, c.Limits)
	}
	_, err := c.simulate(math.Inf(1), &c.Denied)
	slices.SortStableFunc(c.Denied, func(x, y DeniedToken) int { return cmp.Compare(y.Denied, x.Denied) })
	return err
}

// lengths returns limits of the lengths that admit every request, the shortest first.
func (c *class) lengths(per []time.Duration) []ratelimit.Limit {
	var limits []ratelimit.Limit
	inForce := c.Assignment.Policy.Limits()
	for _, p := range per {
		l := ratelimit.Limit{Name: p.String(), Per: p}
		if i := slices.IndexFunc(inForce, func(l ratelimit.Limit) bool { return l.Per == p && !l.Shadow }); i >= 0 {
			l.Name = inForce[i].Name
		}
		limits = append(limits, l)
	}
	for _, l := range inForce {
		if len(per) == 0 && !l.Shadow {
			limits = append(limits, l)
		}
	}
	for i := range limits {
		limits[i].Requests = int(c.busiest)
	}
	slices.SortFunc(limits, func(x, y ratelimit.Limit) int { return cmp.Compare(x.Per, y.Per) })
	return limits
}

// shrink makes a limit the smallest with which the sum of the tokens' denied parts is at most that, if the present one does. A larger
// limit denies no more, except that one of more than MaxExact may count an admission for longer than one of MaxExact does.
func (c *class) shrink(i int, most float64) (err error) {
	requests := &c.Limits[i].Requests
	suffices := func(n int) bool {
		*requests = n
		denied, failure := c.simulate(most, nil)
		err = cmp.Or(err, failure)
		return denied <= most+rounding
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
	return err
}
