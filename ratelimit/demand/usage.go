package demand

import (
	"cmp"
	"fmt"
	"iter"
	"slices"
	"time"
)

// UsageOptions are the options of a usage report.
type UsageOptions struct {
	By           func(*Event) UsageKey // of a request; requests with the same key are counted together
	Since, Until time.Time             // of requests: Until is exclusive; zero for no bound
}

// A UsageKey is what requests are counted by. Fields that do not matter are empty.
type UsageKey struct {
	TeamID    string `json:"team_id,omitempty"`
	TokenID   string `json:"token_id,omitempty"`
	Operation string `json:"operation,omitempty"`
}

// A UsageReport is the recorded requests. They are of the tokens in the sample alone, and not scaled: a sample has whole tokens, and the
// others may have many more requests.
type UsageReport struct {
	Total

	Rows []UsageRow `json:"-"` // in descending order of requests
}

// A UsageRow is the requests with a key.
type UsageRow struct {
	UsageKey

	Requests uint64            `json:"requests"`
	Admitted uint64            `json:"admitted"`
	Refunded uint64            `json:"refunded"` // of the admitted ones
	Denied   uint64            `json:"denied"`
	DeniedBy map[string]uint64 `json:"denied_by"` // by the name of the limit
}

// Usage counts requests. A refund counts for the key of its request, if that is one of the newest 128 admissions of the token.
func Usage(events iter.Seq2[Event, error], o UsageOptions) (*UsageReport, error) {
	report, rows, admitted := new(UsageReport), make(map[UsageKey]*UsageRow), make(map[string][]usedAdmission)
	for e, err := range events {
		switch {
		case err != nil:
			return nil, fmt.Errorf("read the record: %w", err)
		case !e.RefundOf.IsZero():
			refunded := func(a usedAdmission) bool { return a.at == e.RefundOf.UnixNano() }
			if i := slices.IndexFunc(admitted[e.TokenID], refunded); i >= 0 {
				admitted[e.TokenID][i].row.Refunded++
				admitted[e.TokenID] = slices.Delete(admitted[e.TokenID], i, i+1)
			}
		case !e.isRequest() || e.At.Before(o.Since) || !o.Until.IsZero() && !e.At.Before(o.Until):
		default:
			key := o.By(&e)
			if rows[key] == nil {
				rows[key] = &UsageRow{UsageKey: key, DeniedBy: make(map[string]uint64)}
			}
			report.count(e.At)
			if rows[key].count(&e); e.Allowed {
				newest := admitted[e.TokenID]
				newest = slices.Delete(newest, 0, max(0, len(newest)-maxRefundable+1))
				admitted[e.TokenID] = append(newest, usedAdmission{e.At.UnixNano(), rows[key]})
			}
		}
	}
	for _, row := range rows {
		report.Rows = append(report.Rows, *row)
	}
	slices.SortFunc(report.Rows, func(x, y UsageRow) int {
		return cmp.Or(cmp.Compare(y.Requests, x.Requests), cmp.Compare(x.TeamID, y.TeamID), cmp.Compare(x.TokenID, y.TokenID),
			cmp.Compare(x.Operation, y.Operation))
	})
	return report, nil
}

// A usedAdmission is an admission, by its time in ns since 1970, with the row that counts it.
type usedAdmission struct {
	at  int64
	row *UsageRow
}

func (r *UsageRow) count(e *Event) {
	if r.Requests++; e.Allowed {
		r.Admitted++
		return
	}
	r.Denied++
	r.DeniedBy[e.Denied]++
}
