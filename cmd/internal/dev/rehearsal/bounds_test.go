package rehearsal

import (
	"strconv"
	"strings"
	"testing"

	"opsgate/backendclient/testkit"
)

func TestMemoryIsBounded(t *testing.T) {
	var j journal
	s := newSchedule(1, "full")
	for i := range maxEntries + 10 {
		j.add(&Entry{Path: strconv.Itoa(i), Fault: CutBefore})
		s.keep(request{id: strconv.Itoa(i)}, &plan{}) // never repeated
	}
	if len(j.entries) != maxEntries || j.requests != maxEntries+10 || j.disturbed != maxEntries+10 {
		t.Errorf("%d entries of %d requests", len(j.entries), j.requests)
	}
	if len(s.pending) > maxPending {
		t.Errorf("%d plans", len(s.pending))
	}
	var text strings.Builder
	if testkit.Must(t, (Score{Requests: j.requests}).Print(&text)); !strings.Contains(text.String(), "\nOnly the first 10000 are judged.\n") {
		t.Errorf("got %s", text.String())
	}
	// The requests that follow the late ones may not be kept.
	for _, item := range Evaluate(j.entries, nil).Items {
		if len(item.Findings) > maxFindings || item.Name == "repeats" && item.Failures != maxEntries-lateEntries {
			t.Errorf("%s has %d findings of %d failures", item.Name, len(item.Findings), item.Failures)
		}
	}
}
