package testkit

import (
	"strings"
	"testing"
	"time"
)

const (
	// MaxWait is the maximum time to wait for anything.
	MaxWait      = 2 * time.Minute
	pollInterval = 5 * time.Millisecond
)

// A TB is a test, or one of the properties of rapid.
type TB interface {
	Helper()
	Fatal(args ...any)
}

// Must ends a test that got an error.
func Must(t TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Contains fails a test for each part that a text lacks.
func Contains(t testing.TB, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("there is no %q in\n%s", part, text)
		}
	}
}

// Eventually waits until holds returns true, for at most MaxWait, and returns the time that it
// waited.
func Eventually(t testing.TB, what string, holds func() bool) time.Duration {
	t.Helper()
	begun := time.Now()
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	for !holds() {
		if time.Since(begun) > MaxWait {
			t.Fatalf("not within %v: %s", MaxWait, what)
		}
		<-tick.C
	}
	return time.Since(begun)
}
