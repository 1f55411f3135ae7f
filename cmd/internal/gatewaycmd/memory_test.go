package gatewaycmd

import (
	"runtime/debug"
	"testing"
)

func TestGOGCOverridesTheDefault(t *testing.T) {
	before := debug.SetGCPercent(123)
	defer debug.SetGCPercent(before)
	tuneCollector([]string{"GOGC=200"})
	if got := debug.SetGCPercent(123); got != 123 { // set by the runtime, not by tuneCollector
		t.Errorf("with GOGC: got %d", got)
	}
	tuneCollector([]string{"GOGCX=200"})
	if got := debug.SetGCPercent(123); got != gcPercent {
		t.Errorf("without GOGC: got %d", got)
	}
}
