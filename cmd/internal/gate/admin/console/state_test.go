package console_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"opsgate/backendclient/testkit"
	"opsgate/cmd/internal/gate/admin/console"
)

// state returns the state that the gateway reports now.
func (g *gateway) state(t *testing.T) (s console.State) {
	t.Helper()
	code, body := g.get(t, g.admin+"/admin/state", "")
	if code != http.StatusOK {
		t.Fatalf("got %d %s", code, body)
	}
	testkit.Must(t, json.Unmarshal([]byte(body), &s))
	return s
}

func TestStateIsSharedForHalfASecond(t *testing.T) {
	now, source := noon, healthy()
	c := newWithClock(newCounters(), source, func() time.Time { return now })
	for _, step := range []struct {
		after   time.Duration
		version string
	}{{0, "first"}, {499 * time.Millisecond, "first"}, {time.Millisecond, "third"}, {-time.Hour, "fourth"}} { // the clock was set back
		now = now.Add(step.after)
		if step.after == 0 || step.version != "first" {
			source.config.Version = step.version
		} else {
			source.config.Version = "second"
		}
		if got := stateOf(t, c); got.Config.Version != step.version {
			t.Errorf("at %v: version %s, want %s", now, got.Config.Version, step.version)
		}
	}
}

func TestStateOfADrainingGateway(t *testing.T) {
	c := newAtNoon(newCounters(), healthy())
	if got := stateOf(t, c); got.Draining || got.Verdict != "well" || !got.At.Equal(noon) {
		t.Errorf("got %+v", got)
	}
	c.Drain()
	got := stateOf(t, c) // at once
	want := impaired("draining", "This gateway is draining: it will stop, and load balancers send it no more requests", "", "gateways.md#a-gateway-is-draining")
	if diff := diffFindings(t, want, got.Findings); diff != "" || !got.Draining {
		t.Errorf("%+v: %s", got, diff)
	}
}

// The page shows the start of an outage, not the time of the first request.
func TestOutageIsShownFromItsStart(t *testing.T) {
	g := start(t, "")
	g.stopFleet()
	var began, last time.Time
	shown := 0
	testkit.Eventually(t, "several attempts to connect are shown", func() bool {
		s := g.state(t)
		for _, d := range s.Dependencies {
			if d.Name != "fleet" || d.OK || d.Since == nil || !s.At.After(last.Add(time.Second/2)) {
				continue
			}
			shown, last = shown+1, s.At
			if began.IsZero() {
				began = *d.Since
			}
			if !d.Since.Equal(began) || began.After(s.At.Add(2*time.Second)) { // At is truncated, and read before
				t.Errorf("at %v the outage began at %v, before at %v", s.At, d.Since, began)
			}
			if text := s.Findings[0].Text; !strings.HasPrefix(text, "fleet: ") || !strings.Contains(text, " for ") {
				t.Errorf("the finding is %q", text)
			}
		}
		return shown == 3
	})
}
