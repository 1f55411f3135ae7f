package accesslog

import (
	"cmp"
	"io"
	"slices"
)

// A Usage is the requests of a log.
type Usage struct {
	Summary

	Rows []UsageRow `json:"rows"` // in descending order of requests
}

// A UsageRow is the requests that are counted together.
type UsageRow struct {
	usageKey

	Requests uint64            `json:"requests"`
	Admitted uint64            `json:"admitted"`
	Refunded uint64            `json:"refunded"` // of the admitted ones
	Denied   uint64            `json:"denied"`
	DeniedBy map[string]uint64 `json:"denied_by"` // by the name of the limit
}

// A usageKey is what requests are counted by. Fields that do not matter are empty.
type usageKey struct {
	TeamID    string `json:"team_id,omitempty"`
	TokenID   string `json:"token_id,omitempty"`
	Operation string `json:"operation,omitempty"`
}

// Count counts the requests of logs by team, token or operation. The paths are as those of [Read].
func Count(paths []string, in io.Reader, by string) (u Usage, err error) {
	rows := make(map[usageKey]*UsageRow)
	u.Summary, err = read(paths, in, func(e *entry) {
		key := usageKey{TeamID: e.TeamID}
		switch by {
		case "token":
			key.TokenID = e.TokenID
		case "operation":
			key = usageKey{Operation: e.Route}
		}
		if rows[key] == nil {
			rows[key] = &UsageRow{usageKey: key, DeniedBy: make(map[string]uint64)}
		}
		rows[key].count(e)
	})
	for _, row := range rows {
		u.Rows = append(u.Rows, *row)
	}
	slices.SortFunc(u.Rows, func(x, y UsageRow) int {
		return cmp.Or(cmp.Compare(y.Requests, x.Requests), cmp.Compare(x.TeamID, y.TeamID), cmp.Compare(x.TokenID, y.TokenID),
			cmp.Compare(x.Operation, y.Operation))
	})
	return u, err
}

func (row *UsageRow) count(e *entry) {
	row.Requests++
	if limit := e.deniedBy(); limit != "" {
		row.Denied++
		row.DeniedBy[limit]++
		return
	}
	row.Admitted++
	if e.Refunded {
		row.Refunded++
	}
}
