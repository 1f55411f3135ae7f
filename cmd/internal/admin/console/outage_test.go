package console_test

import (
	"strings"
	"testing"
	"time"
)

// What is told of an outage is when it began, and not when somebody came to look.
func TestAnOutageIsToldFromItsBeginning(t *testing.T) {
	g := start(t, "")
	g.stopFleet()
	r := followAt(t, g.admin+"/admin/events")
	var began time.Time
	for told := 0; told < 3; { // by three events, as it is tried to connect meanwhile
		s, ok := r.state(t)
		if !ok {
			t.Fatal("the events end")
		}
		for _, d := range s.Dependencies {
			if d.Name != "fleet" || d.OK || d.Since == nil {
				continue
			}
			told++
			if began.IsZero() {
				began = *d.Since
			}
			if !d.Since.Equal(began) || began.After(s.At.Add(time.Second)) { // At is truncated, and read first
				t.Errorf("at %v it is away since %v, and was since %v", s.At, d.Since, began)
			}
			if text := s.Findings[0].Text; !strings.HasPrefix(text, "fleet: ") || !strings.Contains(text, " for ") {
				t.Errorf("it says %q", text)
			}
		}
	}
}
