package command

import (
	"strings"
	"testing"
	"time"

	"opsgate/internal/testkit"
)

// Embedded has fields in the place of its struct.
type Embedded struct {
	Count uint64 `json:"count"`
}

type tableRow struct {
	Name string  `json:"name"`
	Note string  `json:"note,omitempty"`
	Wait float64 `json:"wait_seconds"`
}

func TestTextHasWhatJSONHas(t *testing.T) {
	seven := 7
	var out strings.Builder
	testkit.Must(t, write(&out, false, struct {
		At     time.Time `json:"at"`
		Absent *int      `json:"absent"`
		Set    *int      `json:"set"`
		Omit   string    `json:"omit,omitempty"`
		Hidden string    `json:"-"`
		Embedded

		Inner struct {
			Long  int64             `json:"long_seconds"`
			Empty string            `json:"empty"`
			By    map[string]uint64 `json:"by"`
		} `json:"inner_part"`
		Words []string   `json:"words"`
		Rows  []tableRow `json:"rows"`
		None  []tableRow `json:"none"`
		Noted []tableRow `json:"noted"`
	}{
		At: time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC), Set: &seven, Hidden: "x", Embedded: Embedded{3},
		Inner: struct {
			Long  int64             `json:"long_seconds"`
			Empty string            `json:"empty"`
			By    map[string]uint64 `json:"by"`
		}{Long: 90, By: map[string]uint64{"b": 2, "a": 1}},
		Words: []string{"one", "\u05d0"}, Rows: []tableRow{{Name: "a\tb\n\x1b[31m", Wait: 0.25}, {Wait: 3600}}, Noted: []tableRow{{Name: "c"}, {Name: "d", Note: "n"}},
	}))
	const want = `at          2026-01-02T03:04:05Z
absent      -
set         7
count       3
inner part  long 1m30s, by a=1 b=2
words       one
words       ` + "\u2068\u05d0\u2069" + `

NAME       WAIT
a b  [31m  250ms
-          1h

NAME  NOTE  WAIT
c     -     0s
d     n     0s
`
	if out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", out.String(), want)
	}
}
