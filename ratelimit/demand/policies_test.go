package demand_test

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"opsgate/ratelimit"
	"opsgate/ratelimit/demand"
)

// Each file of a record has the policies of its requests, also after a rotation, a start and many changes of the configuration.
func TestRequestsHaveTheirPolicyInEveryFile(t *testing.T) {
	p := path(t)
	m := newManual(t, demand.Options{Path: p})
	const requests, every = 40_000, 100
	requestsOf := func(i int) int { return i/every%400 + 1 } // of the limit in force
	var policy *ratelimit.Policy
	for i := range requests {
		if i%every == 0 {
			policy = policyOf(t, limit("second", requestsOf(i), time.Second), limit("hour", 5000, time.Hour))
		}
		e := request(i)
		e.Policy = policy
		m.Record(e)
		if i%700 == 0 {
			m.write(t)
		}
		if i == requests/2 {
			m.write(t)
			_ = m.Close()
			m = newManual(t, demand.Options{Path: p})
		}
	}
	m.write(t)
	for _, file := range []string{p, p + ".1"} {
		if content, err := os.ReadFile(file); err != nil || strings.Count(string(content), `"policy"`) < 10 {
			t.Errorf("%s: %v", file, err)
		}
	}
	events, _ := read(t, p)
	for _, e := range events {
		i := int(e.At.Sub(noon()).Milliseconds())
		if e.Policy == nil || e.Policy.Limits()[0].Requests != requestsOf(i) {
			t.Fatalf("request %d: got %+v", i, e.Policy)
		}
	}
	if n := len(events); n < 4000 || n == requests {
		t.Errorf("%d events", n)
	}
}

// Equal limits in the records of two gateways are one policy, so an audit sees no change between them.
func TestEqualLimitsOfGatewaysAreOnePolicy(t *testing.T) {
	var paths []string
	for i := range 2 {
		p := path(t)
		r := record(t, demand.Options{Path: p})
		d := ratelimit.Decision{Allowed: true, DeniedBy: -1, At: noon().Add(time.Duration(i))}
		r.Decided("", "tok_1", "harbour", policyOf(t, limit("second", 3, time.Second)), &d)
		r.stop()
		paths = append(paths, p)
	}
	events, _ := read(t, paths...)
	if len(events) != 2 || events[0].Policy == nil || events[0].Policy != events[1].Policy {
		t.Errorf("got %+v", events)
	}
}

func TestInterruptionsOfARecordAreRead(t *testing.T) {
	p := path(t)
	appendTo(t, p, header+line(1, "a")+`{"dropped":2}`+"\n"+
		`{"dropped":3,"from":"2026-01-02T12:00:02Z","to":"2026-01-02T12:00:04Z"}`+"\n"+
		line(5, "a")+header+line(8, "b")+line(7, "a")+line(6, "c"))
	_, opened := read(t, p)
	at := func(second int) time.Time { return noon().Add(time.Duration(second) * time.Second) }
	want := []demand.Interruption{
		{Kind: demand.EventsMissing, Path: p, Events: 2},
		{Kind: demand.EventsMissing, Path: p, Events: 3, From: at(2), To: at(4)},
		{Kind: demand.GatewayStarted, Path: p, From: at(5), To: at(8)},
		{Kind: demand.ClockSetBack, Path: p, From: at(6), To: at(8)}, // a second is within the delay of a gateway
	}
	if got := opened.Interruptions(); !slices.Equal(got, want) {
		t.Errorf("got\n%+v, want\n%+v", got, want)
	}
}
