package console_test

import (
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"opsgate/backendclient/testkit"
	"opsgate/cmd/internal/gate/admin/console"
)

// sendSlow sends requests at the same time for which fleet takes 700 ms, and returns the time that all took. If they are in two samples,
// one of them still has the 20 calls of a finding.
func (g *gateway) sendSlow(t *testing.T) time.Duration {
	t.Helper()
	g.Takes.Store(int64(700 * time.Millisecond))
	began := time.Now()
	var requests sync.WaitGroup
	for range 40 {
		requests.Go(func() {
			if code := g.servers(t); code != 200 {
				t.Errorf("got %d", code)
			}
		})
	}
	requests.Wait()
	return time.Since(began)
}

// It is not parallel, because calls of the other services must be fast.
func TestSlowServiceIsShown(t *testing.T) {
	g := start(t, "")
	g.servers(t) // the token is cached
	took, longest := g.sendSlow(t), 1.0
	for _, bound := range []float64{2.5, 5, 10} { // of the histogram
		if took.Seconds() > longest {
			longest = bound
		}
	}
	var s console.State
	i := -1
	testkit.Eventually(t, "the slow service is a finding", func() bool {
		s = g.state(t)
		i = slices.IndexFunc(s.Findings, func(f console.Finding) bool { return f.Key == "slow:fleet" })
		return i >= 0
	})
	if f := s.Findings[i]; f.Verdict != "impaired" || !strings.HasPrefix(f.Text, "fleet: slow, ") || !strings.Contains(f.Impact, "fleet") {
		t.Errorf("the finding is %+v", f)
	}
	for _, d := range s.Dependencies {
		l := d.Latencies
		switch {
		case d.Name == "fleet":
			if l == nil || l.Calls < 20 || l.P50.Seconds < .5 || l.P99.Seconds > longest || l.P99Of5m.Seconds < .5 {
				t.Errorf("the latencies of fleet are %+v", l)
			}
		case l != nil && l.P99 != nil && l.P99.Seconds > .5:
			t.Errorf("the latencies of %s are %+v", d.Name, l)
		}
	}
}

// The page and the alerts have the same objective by default.
func TestObjectiveOfLatencyIsThatOfAlerts(t *testing.T) {
	rules, err := os.ReadFile("../../../../../deploy/prometheus/rules/objectives.yaml")
	testkit.Must(t, err)
	match := regexp.MustCompile(`record: opsgate:objective:latency_seconds\s+expr: vector\((.+)\)`).FindSubmatch(rules)
	if match == nil {
		t.Fatal("there is no rule")
	}
	if of, err := strconv.ParseFloat(string(match[1]), 64); err != nil || of != console.SlowLatency {
		t.Errorf("alerts have %s, the page has %v", match[1], console.SlowLatency)
	}
}
