package demand_test

import (
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"opsgate/ratelimit"
	"opsgate/ratelimit/demand"
)

// After a rotation and a start, a record still has the gateways of the time that it covers.
func TestEachFileOfARecordHasTheGateways(t *testing.T) {
	p := path(t)
	var clock atomic.Pointer[time.Time] // the recorder reads it while it runs
	set := func(now time.Time) time.Time { clock.Store(&now); return now }
	set(noon())
	counted := demand.Gateways{ID: "a", Count: 2, IDs: []string{"a", "b"}}
	o := demand.Options{Path: p, Clock: func() time.Time { return *clock.Load() }, Gateways: func() demand.Gateways { return counted }}
	r := record(t, o)
	for i := range 8000 { // of which the files hold some 7,000
		now := set(noon().Add(time.Duration(i) * time.Second))
		r.Decided("v1ListServers", fmt.Sprintf("tok_%0100d", i), "harbour", policyOf(t, limit("second", 3, time.Second)), &ratelimit.Decision{At: now, Allowed: true})
	}
	r.stop()
	started := set(clock.Load().Add(time.Minute))
	counted = demand.Gateways{ID: "a2"} // Redis does not answer
	r = record(t, o)
	now := set(started.Add(time.Second))
	r.Record(demand.Event{At: now, TokenID: "tok_1", TeamID: "harbour", Allowed: true})
	r.stop()
	events, opened := read(t, p)
	report, err := demand.Audit(sequence(events...), demand.AuditOptions{Periods: opened.Periods})
	if err != nil || report.Requests >= 8000 {
		t.Fatalf("got %d requests, %v", report.Requests, err)
	}
	gaps, gateways := report.Gaps()
	from, to, _ := report.Covered()
	want := []demand.Gap{{Gateway: "b", Missing: 1, From: from, To: started}, {Path: p, From: started, To: to}}
	if gateways != 2 || !slices.Equal(gaps, want) {
		t.Errorf("got %+v of %d gateways, want %+v", gaps, gateways, want)
	}
}
