package gatewaycmd

import (
	"log/slog"
	"runtime/debug"
	"testing"
)

func TestGarbageIsCollectedAsTheOperatorSays(t *testing.T) {
	before := debug.SetGCPercent(123)
	defer debug.SetGCPercent(before)
	logger := slog.New(slog.DiscardHandler)
	tuneMemory([]string{"GOGC=200"}, logger)
	if got := debug.SetGCPercent(123); got != 123 { // the runtime has read the variable itself
		t.Errorf("with GOGC: got %d", got)
	}
	tuneMemory([]string{"GOGCX=200"}, logger)
	if got := debug.SetGCPercent(123); got != collectAt {
		t.Errorf("without GOGC: got %d", got)
	}
}
