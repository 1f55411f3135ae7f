package gatewaycmd

import (
	"log/slog"
	"runtime/debug"
	"testing"
)

func TestGOGCOverridesTheDefault(t *testing.T) {
	before := debug.SetGCPercent(123)
	defer debug.SetGCPercent(before)
	logger := slog.New(slog.DiscardHandler)
	tuneMemory([]string{"GOGC=200"}, logger)
	if got := debug.SetGCPercent(123); got != 123 { // set by the runtime, not by tuneMemory
		t.Errorf("with GOGC: got %d", got)
	}
	tuneMemory([]string{"GOGCX=200"}, logger)
	if got := debug.SetGCPercent(123); got != gcPercent {
		t.Errorf("without GOGC: got %d", got)
	}
}
