package demand

import (
	"testing"
	"time"
)

// A decoded event is the same after it is encoded and decoded again.
func FuzzDecodeLine(f *testing.F) {
	at := time.Date(2026, 1, 2, 12, 0, 0, 123456789, time.UTC)
	for _, e := range []Event{
		{At: at, TokenID: "tok_1", TeamID: "harbour", Allowed: true, Local: true},
		{At: at, TokenID: "odd \"\\ü\n\x01", Denied: "second", RetryAfter: 340 * time.Millisecond, Cached: true},
		{At: at, TokenID: "tok_1", RefundOf: at.Add(-time.Second)},
		{At: at, TokenID: "tok_1", Reset: true},
	} {
		f.Add(appendEvent(nil, &e))
	}
	f.Add(appendHeader(nil, 0.01))
	f.Add(appendDropped(nil, 7))
	f.Add([]byte(`{"AT":"2026-01-02T12:00:00+02:00","token":"a","denied":"x","team":null} `))
	f.Fuzz(func(t *testing.T, text []byte) {
		l, err := decodeLine(text)
		if err != nil || l.Format != 0 || l.Dropped != 0 {
			return
		}
		e := l.event()
		written := appendEvent(nil, &e)
		again, err := decodeLine(written)
		if err != nil || again.event() != e {
			t.Fatalf("%q is encoded as %q: %v", text, written, err)
		}
	})
}
