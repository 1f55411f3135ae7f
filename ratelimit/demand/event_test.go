package demand

import (
	"slices"
	"testing"
	"time"
)

// A decoded event is the same after it is encoded and decoded again.
func FuzzDecodeLine(f *testing.F) {
	at := time.Date(2026, 1, 2, 12, 0, 0, 123456789, time.UTC)
	for _, e := range []Event{
		{At: at, TokenID: "tok_1", TeamID: "harbour", Operation: "v1ListServers", Allowed: true, Local: true},
		{At: at, TokenID: "odd \"\\ü\n\x01", Denied: "second", RetryAfter: 340 * time.Millisecond, Cached: true},
		{At: at, TokenID: "tok_1", RefundOf: at.Add(-time.Second)},
		{At: at, TokenID: "tok_1", Reset: true},
	} {
		f.Add(appendEvent(nil, &e, 0))
	}
	f.Add(appendHeader(nil, 0.01))
	f.Add(appendDropped(nil, 7, span{at, at.Add(1)}))
	f.Add([]byte(`{"dropped":7}`))
	f.Add(appendGateways(nil, at, Gateways{"a", 3, []string{"a", "b"}}))
	f.Add([]byte(`{"policy":3,"limits":[{"name":"second","requests":3,"per_ns":1000000000}]}`))
	f.Add([]byte(`{"at":"2026-01-02T12:00:00Z","token":"a","allowed":true,"policy":3}`))
	f.Add([]byte(`{"AT":"2026-01-02T12:00:00+02:00","token":"a","denied":"x","team":null} `))
	f.Fuzz(func(t *testing.T, text []byte) {
		l, err := decodeLine(text)
		if err != nil || l.Format != 0 || l.Dropped != 0 {
			return
		}
		if g := l.Gateways; g != nil {
			counted := Gateways{g.ID, g.Count, g.IDs}
			again, err := decodeLine(appendGateways(nil, *g.At, counted.bounded()))
			if err != nil || !counted.equal(Gateways{again.Gateways.ID, again.Gateways.Count, again.Gateways.IDs}) {
				t.Fatalf("%q: got %+v, %v", text, again, err)
			}
			return
		}
		if l.Limits != nil {
			p, _ := l.policy()
			again, err := decodeLine(appendPolicy(nil, l.Policy, p))
			if err != nil || again.Policy != l.Policy || !slices.Equal(*again.Limits, *l.Limits) {
				t.Fatalf("%q: got %+v, %v", text, again, err)
			}
			return
		}
		e := l.event()
		written := appendEvent(nil, &e, l.Policy)
		again, err := decodeLine(written)
		if err != nil || again.event() != e || again.Policy != l.Policy {
			t.Fatalf("%q is encoded as %q: %v", text, written, err)
		}
	})
}
