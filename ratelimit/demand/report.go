package demand

import (
	"cmp"
	"slices"
	"time"

	"opsgate/ratelimit"
)

// A Report is what other limits would have made of a record. Before is what was recorded, After what would have been.
type Report struct {
	From, To time.Time // of the first and the last request
	Requests uint64

	Before, After Refusals // KeptOut is of all tokens together, Longest of any
	NewlyDenied   uint64   // that were admitted
	NewlyAdmitted uint64   // that were denied
	Limits        []LimitReport
	Tokens        []TokenReport // all; those of whom most would be newly denied come first

	// Window is the length of the longest limit. What tokens had spent before the record began is not known, so in its
	// first Window, in which Uncertain requests were made, more may be admitted here than would be.
	Window    time.Duration
	Uncertain uint64

	Local  uint64 // requests that one gateway decided alone
	Cached uint64 // refusals that were repeated without asking the store
	Late   uint64 // events that were recorded long after later ones: a clock was set back
}

// Refusals are how many requests were denied, and for how long: a token is kept out from a refusal until it would be admitted.
type Refusals struct {
	Denied           uint64
	KeptOut, Longest time.Duration
}

// A LimitReport is what a limit does to the tokens that have it under the new limits.
type LimitReport struct {
	Key, Origin   string          // of the configuration
	Name          string          // of the limit
	Limit         ratelimit.Limit // zero where there is none of that name any more
	Before, After uint64          // denied by the limit of that name; in shadow, After would have been
	NewlyDenied   uint64
}

// A TokenReport is what becomes of a token.
type TokenReport struct {
	TokenID, TeamID            string
	Key                        string // of what gives it its limits in the end
	Requests                   uint64
	Before, After              Refusals
	NewlyDenied, NewlyAdmitted uint64
	First                      time.Time // when it would be newly denied for the first time; zero for never
}

// A limitKey names a limit of the configuration.
type limitKey struct{ key, name string }

// A limitTally is a limit's report, and where it belongs.
type limitTally struct {
	LimitReport
	isDefault bool
	index     int // in its policy
}

// sortedLimits returns the reports of the limits: the default ones first, then by their keys, and in their order.
func sortedLimits(limits map[limitKey]*limitTally) []LimitReport {
	all := make([]*limitTally, 0, len(limits))
	for _, l := range limits {
		all = append(all, l)
	}
	slices.SortFunc(all, func(x, y *limitTally) int {
		if x.isDefault != y.isDefault {
			if x.isDefault {
				return -1
			}
			return 1
		}
		return cmp.Or(cmp.Compare(x.Key, y.Key), cmp.Compare(x.index, y.index), cmp.Compare(x.Name, y.Name))
	})
	reports := make([]LimitReport, len(all))
	for i, l := range all {
		reports[i] = l.LimitReport
	}
	return reports
}

// sortedTokens returns the reports of the tokens, those that are newly denied most first.
func sortedTokens(tokens map[string]*token) []TokenReport {
	reports := make([]TokenReport, 0, len(tokens))
	for _, t := range tokens {
		if t.Requests > 0 {
			reports = append(reports, t.TokenReport)
		}
	}
	slices.SortFunc(reports, func(x, y TokenReport) int {
		return cmp.Or(cmp.Compare(y.NewlyDenied, x.NewlyDenied), cmp.Compare(y.After.Denied, x.After.Denied),
			cmp.Compare(x.TokenID, y.TokenID))
	})
	return reports
}

// A stay is a time for which a token is kept out.
type stay struct{ from, until time.Time }

// extend notes a refusal that holds for a while.
func (s *stay) extend(r *Refusals, at time.Time, holds time.Duration) {
	r.Denied++
	until := at.Add(holds)
	if at.After(s.until) {
		*s = stay{from: at, until: at}
	}
	if until.After(s.until) {
		r.KeptOut += until.Sub(s.until)
		s.until = until
	}
	r.Longest = max(r.Longest, s.until.Sub(s.from))
}

// add adds the refusals of a token to those of all.
func (r *Refusals) add(of Refusals) {
	r.Denied += of.Denied
	r.KeptOut += of.KeptOut
	r.Longest = max(r.Longest, of.Longest)
}
