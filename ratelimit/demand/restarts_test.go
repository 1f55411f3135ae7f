package demand_test

import (
	"strings"
	"testing"
	"time"

	"opsgate/ratelimit"
	"opsgate/ratelimit/demand"
)

// startsIn returns the starts of gateways that interrupt the record.
func startsIn(t *testing.T, path string) (starts []demand.Interruption) {
	t.Helper()
	_, opened := read(t, path)
	for _, x := range opened.Interruptions() {
		if x.Kind != demand.GatewayStarted {
			t.Errorf("got %+v", x)
		}
		starts = append(starts, x)
	}
	return starts
}

func TestStartInOrderIsNoInterruption(t *testing.T) {
	limits := `{"policy":1,"limits":[{"name":"ten","requests":3,"per_ns":10000000000}]}` + "\n"
	local := func(second int) string {
		return strings.Replace(line(second, "a"), `,"allowed":true`, `,"allowed":true,"local":true,"policy":1`, 1)
	}
	ended := `{"ended":{"at":"2026-01-02T12:00:20Z","store":"s"}}` + "\n"
	started := header + `{"started":{"at":"2026-01-02T12:00:21Z","store":"s"}}` + "\n" + limits
	at := func(second int) time.Time { return noon().Add(time.Duration(second) * time.Second) }
	start := func(from, to int) demand.Interruption {
		return demand.Interruption{Kind: demand.GatewayStarted, From: at(from), To: at(to)}
	}
	for name, test := range map[string]struct {
		lines string
		want  []demand.Interruption
	}{
		"in order":          {lines: line(1, "a") + ended + started + line(25, "a")},
		"twice":             {lines: line(1, "a") + ended + started + ended + started + line(25, "a")},
		"killed":            {line(1, "a") + started + line(25, "a"), []demand.Interruption{start(1, 25)}},
		"killed, then not":  {line(1, "a") + started + ended + started + line(25, "a"), []demand.Interruption{start(1, 25)}},
		"earlier version":   {line(1, "a") + ended + header + line(25, "a"), []demand.Interruption{start(1, 25)}},
		"another store":     {line(1, "a") + strings.Replace(ended, `"s"`, `"t"`, 1) + started + line(25, "a"), []demand.Interruption{start(1, 25)}},
		"no store":          {strings.ReplaceAll(line(1, "a")+ended+started+line(25, "a"), `,"store":"s"`, ""), []demand.Interruption{start(1, 25)}},
		"more than 1m":      {line(1, "a") + ended + strings.Replace(started, "12:00:21", "12:01:21", 1) + line(25, "a"), []demand.Interruption{start(1, 25)}},
		"the clock is back": {line(1, "a") + ended + strings.Replace(started, "12:00:21", "12:00:19", 1) + line(25, "a"), []demand.Interruption{start(1, 25)}},
		"local before":      {limits + local(12) + ended + started + line(25, "a"), []demand.Interruption{start(12, 25)}},
		"local long before": {lines: limits + local(1) + ended + started + line(25, "a")},
		"local after":       {line(1, "a") + ended + started + line(25, "a") + local(35), []demand.Interruption{start(1, 25)}},
		"local long after":  {lines: line(1, "a") + ended + started + line(25, "a") + local(36)},
	} {
		p := path(t)
		appendTo(t, p, header+test.lines)
		for i := range test.want {
			test.want[i].Path = p
		}
		got := startsIn(t, p)
		if len(got) != len(test.want) || len(got) > 0 && got[0] != test.want[0] {
			t.Errorf("%s: got %+v, want %+v", name, got, test.want)
		}
	}
}

func TestEndIsRecordedOnlyIfTheRecordIsComplete(t *testing.T) {
	for name, test := range map[string]struct {
		store string
		after func(m *manual)
		want  int
	}{
		"complete":  {"s", func(*manual) {}, 0},
		"in memory": {"", func(*manual) {}, 1},
		"an event is queued": {"s", func(m *manual) {
			m.Record(request(1))
		}, 1},
		"an event is dropped": {"s", func(m *manual) {
			for i := range 9000 {
				m.Record(request(i))
			}
			for len(m.Queued()) > 0 {
				<-m.Queued()
			}
		}, 1},
	} {
		p := path(t)
		m := newManual(t, demand.Options{Path: p, Store: test.store})
		m.Record(request(0))
		m.write(t)
		test.after(m)
		m.End()
		_ = m.Close()
		m = newManual(t, demand.Options{Path: p, Store: test.store})
		m.recordAll(t, 2, 3)
		if got := startsIn(t, p); len(got) != test.want {
			t.Errorf("%s: got %+v", name, got)
		}
	}
}

// A start in order is no cause of a window above its limit.
func TestWindowsAcrossAStartInOrderAreAudited(t *testing.T) {
	p := path(t)
	policy := policyOf(t, limit("ten", 3, 10*time.Second))
	for _, seconds := range [][]int{{1, 2}, {3, 4}} {
		m := newManual(t, demand.Options{Path: p, Store: "s"})
		for _, second := range seconds {
			d := ratelimit.Decision{Allowed: true, DeniedBy: -1, At: noon().Add(time.Duration(second) * time.Second)}
			m.Decided("v1ListServers", "tok_1", "harbour", policy, &d)
		}
		m.write(t)
		m.End()
		_ = m.Close()
	}
	events, opened := read(t, p)
	if report := audited(t, events, opened.Interruptions()...); report.Violations() != 1 {
		t.Errorf("got %+v", report)
	}
}
