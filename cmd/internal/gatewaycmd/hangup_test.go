package gatewaycmd

import (
	"log/slog"
	"os"
	"runtime/debug"
	"syscall"
	"testing"
)

// lines is a log that hands each line over.
type lines chan string

func (l lines) Write(p []byte) (int, error) {
	l <- string(p)
	return len(p), nil
}

func TestAHangUpIsAnsweredWithALine(t *testing.T) {
	signals, log := make(chan os.Signal), make(lines)
	stop := logHangUps(signals, slog.New(slog.NewTextHandler(log, nil)))
	for range 2 {
		signals <- syscall.SIGHUP
		<-log
	}
	stop()
}

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
