package edge

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"opsgate/cmd/internal/logging/loggingtest"
)

// An overload that comes and goes is one: the log has a line for its begin and a line for its end.
func TestAnOverloadHasTwoLines(t *testing.T) {
	var log loggingtest.Buffer
	logger, refused := slog.New(slog.NewTextHandler(&log, nil)), uint64(5) // long ago
	b := &bound{name: "capacity", what: "requests in flight", load: func() (int, int, uint64) { return 7, 8, refused }, seen: 5}
	now := time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)
	look := func(after time.Duration, more uint64) {
		now, refused = now.Add(after), refused+more
		b.look(logger, now)
	}
	look(time.Second, 0)
	if d := b.dependency(now); !d.OK || d.Reason != "" {
		t.Errorf("before: %+v", d)
	}
	look(time.Second, 3)
	look(calmFor-time.Second, 0)
	look(time.Second/2, 2)
	if d := b.dependency(now); d.OK || d.State != "overloaded" || d.Reason != "more than 8 requests in flight for 10s; 7 now" {
		t.Errorf("meanwhile: %+v", d)
	}
	if n := strings.Count(log.String(), "\n"); n != 1 || !strings.Contains(log.String(), `bound="requests in flight" most=8`) {
		t.Errorf("%d lines: %s", n, &log)
	}
	look(calmFor, 0)
	look(calmFor, 0)
	if n := strings.Count(log.String(), "\n"); n != 2 || !strings.Contains(log.String(), "refused=5 lasted=10s") {
		t.Errorf("%d lines: %s", n, &log)
	}
	if d := b.dependency(now); !d.OK {
		t.Errorf("afterwards: %+v", d)
	}
}

func TestCausesAreRepeatedInOurWordsAlone(t *testing.T) {
	for cause, want := range map[string]string{
		"": "",
		`Unavailable: connection error: desc = "transport: dial tcp 10.0.0.5:9000: connect: connection refused"`: "Unavailable: connection refused",
		"Internal: pq: password authentication failed for user admin":                                            "Internal",
		"dial tcp 10.0.0.6:6379: i/o timeout":                                                                    "i/o timeout",
		"hunter2":                                                                                                "",
	} {
		if got := inOurWords(cause); got != want {
			t.Errorf("%q: got %q, want %q", cause, got, want)
		}
	}
}
