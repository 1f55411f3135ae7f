package demand

import (
	"cmp"
	"encoding/json"
	"slices"
	"time"

	"opsgate/ratelimit"
)

// A Report compares the recorded decisions (Before) with those under other limits (After).
type Report struct {
	Total

	Before        Denials       `json:"-"` // sums over all tokens, as After; Longest is the maximum
	After         Denials       `json:"-"`
	NewlyDenied   uint64        `json:"-"` // admitted in the record
	NewlyAdmitted uint64        `json:"-"` // denied in the record
	Limits        []LimitReport `json:"-"`
	Tokens        []TokenReport `json:"-"` // all, in descending order of NewlyDenied

	// Window is the length of the longest limit. Usage from before the record is not known, so in the first Window of the record the
	// replay may admit too much. Uncertain is the number of requests in it.
	Window    time.Duration `json:"-"`
	Uncertain uint64        `json:"uncertain"`

	Local  uint64 `json:"local"`  // requests that one gateway decided in place of the shared store
	Cached uint64 `json:"cached"` // denials that were repeated from the cache
	Late   uint64 `json:"late"`   // events out of order: recorded much later than a newer event, as a clock was set back
}

// Denials are the numbers of admitted and denied requests, and the time in which tokens were denied: from a denial until its retry-after is
// over.
type Denials struct {
	Admitted, Denied  uint64
	Duration, Longest time.Duration
}

// MarshalJSON writes times in seconds.
func (r Denials) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Admitted uint64  `json:"admitted"`
		Denied   uint64  `json:"denied"`
		Duration float64 `json:"kept_out_seconds"`
		Longest  float64 `json:"longest_kept_out_seconds"`
	}{r.Admitted, r.Denied, r.Duration.Seconds(), r.Longest.Seconds()})
}

// A LimitReport is the effect of a limit on the tokens that have it after the change.
type LimitReport struct {
	Key         string          `json:"key"` // of the configuration, as Origin
	Origin      string          `json:"origin"`
	Name        string          `json:"name"`          // of the limit
	Limit       ratelimit.Limit `json:"-"`             // zero if there is no limit of that name after the change
	Before      uint64          `json:"denied_before"` // requests denied by the limit of that name
	After       uint64          `json:"denied_after"`  // the same; of a limit in shadow the number that it would have denied
	NewlyDenied uint64          `json:"newly_denied"`
}

// A TokenReport is the effect on a token.
type TokenReport struct {
	TokenID       string    `json:"token_id"`
	TeamID        string    `json:"team_id"`
	Key           string    `json:"limits_of"` // of the assignment of its last request, in the configuration
	Requests      uint64    `json:"-"`
	Before        Denials   `json:"before"`
	After         Denials   `json:"after"`
	NewlyDenied   uint64    `json:"newly_denied"`
	NewlyAdmitted uint64    `json:"newly_admitted"`
	First         time.Time `json:"first_newly_denied_at"` // zero for none
}

// A limitKey names a limit of the configuration.
type limitKey struct{ key, name string }

// A limitTally is the report of a limit, and its place in the list.
type limitTally struct {
	LimitReport
	isDefault bool
	index     int // in its policy
}

// sortedLimits returns the reports of the limits in the order of the configuration: the default ones, then by key.
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

// sortedTokens returns the reports of tokens with requests, in descending order of newly denied ones.
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

// A denialPeriod is a period in which a token is denied.
type denialPeriod struct{ from, until time.Time }

// extend adds a denial to the period and to the sums.
func (s *denialPeriod) extend(r *Denials, at time.Time, retryAfter time.Duration) {
	r.Denied++
	until := at.Add(retryAfter)
	if at.After(s.until) {
		*s = denialPeriod{from: at, until: at}
	}
	if until.After(s.until) {
		r.Duration += until.Sub(s.until)
		s.until = until
	}
	r.Longest = max(r.Longest, s.until.Sub(s.from))
}

// add adds the denials of a token to the sums of all tokens.
func (r *Denials) add(token Denials) {
	r.Admitted += token.Admitted
	r.Denied += token.Denied
	r.Duration += token.Duration
	r.Longest = max(r.Longest, token.Longest)
}
