package console_test

import (
	"strings"
	"testing"
	"time"
)

// The page shows the start of an outage, not the time of the first request.
func TestOutageIsShownFromItsStart(t *testing.T) {
	g := start(t, "")
	g.stopFleet()
	r := connectTo(t, g.admin+"/admin/events")
	var began time.Time
	for shown := 0; shown < 3; { // during several attempts to connect
		s, ok := r.state(t)
		if !ok {
			t.Fatal("the stream ended")
		}
		for _, d := range s.Dependencies {
			if d.Name != "fleet" || d.OK || d.Since == nil {
				continue
			}
			shown++
			if began.IsZero() {
				began = *d.Since
			}
			if !d.Since.Equal(began) || began.After(s.At.Add(time.Second)) { // At is truncated, and read before
				t.Errorf("at %v the outage began at %v, before at %v", s.At, d.Since, began)
			}
			if text := s.Findings[0].Text; !strings.HasPrefix(text, "fleet: ") || !strings.Contains(text, " for ") {
				t.Errorf("the finding is %q", text)
			}
		}
	}
}
