package command

import (
	"runtime/debug"
	"testing"
)

func TestGOGCOverridesTheDefault(t *testing.T) {
	before := debug.SetGCPercent(123)
	defer debug.SetGCPercent(before)
	tuneCollector([]string{"GOGC=200"}, 0)
	if got := debug.SetGCPercent(123); got != 123 { // set by the runtime, not by tuneCollector
		t.Errorf("with GOGC: got %d", got)
	}
	tuneCollector([]string{"GOGCX=200"}, 0)
	if got := debug.SetGCPercent(123); got != gcPercent {
		t.Errorf("without GOGC: got %d", got)
	}
}

func TestGarbageIsBoundedByPartOfTheMemoryLimit(t *testing.T) {
	for _, test := range []struct{ live, limit, want int64 }{
		{12 << 20, 460 << 20, 400}, // an ordinary load
		{57 << 20, 460 << 20, 100}, // a thousand connections
		{300 << 20, 460 << 20, 50},
		{0, 460 << 20, 400},
	} {
		if got := targetFor(test.live, test.limit/garbagePart); int64(got) != test.want {
			t.Errorf("%+v: got %d", test, got)
		}
	}
}
