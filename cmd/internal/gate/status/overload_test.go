package status

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"opsgate/backendclient/testkit"
)

func TestFlappingOverloadIsLoggedOnce(t *testing.T) {
	var log testkit.Buffer
	logger, refused := slog.New(slog.NewTextHandler(&log, nil)), uint64(5)
	l := &monitoredCapacity{
		Capacity: Capacity{Name: "capacity", Resource: "requests in flight", Stats: func() (int, int, uint64) { return 7, 8, refused }},
		refused:  5,
	}
	now := time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)
	check := func(after time.Duration, more uint64) {
		now, refused = now.Add(after), refused+more
		l.check(logger, now)
	}
	check(time.Second, 0)
	if d := l.dependency(now); !d.OK || d.Reason != "" {
		t.Errorf("before the overload: %+v", d)
	}
	check(time.Second, 3)
	check(recoveryPeriod-time.Second, 0)
	check(time.Second/2, 2)
	if d := l.dependency(now); d.OK || d.State != "overloaded" || d.Reason != "more than 8 requests in flight for 10s; 7 now" {
		t.Errorf("during the overload: %+v", d)
	}
	if n := strings.Count(log.String(), "\n"); n != 1 || !strings.Contains(log.String(), `resource="requests in flight" limit=8`) {
		t.Errorf("%d lines: %s", n, &log)
	}
	check(recoveryPeriod, 0)
	check(recoveryPeriod, 0)
	if n := strings.Count(log.String(), "\n"); n != 2 || !strings.Contains(log.String(), "refused=5 lasted=10s") {
		t.Errorf("%d lines: %s", n, &log)
	}
	if d := l.dependency(now); !d.OK {
		t.Errorf("after the overload: %+v", d)
	}
}

func TestUnknownTextOfACauseIsRemoved(t *testing.T) {
	for cause, want := range map[string]string{
		"": "",
		`Unavailable: connection error: desc = "transport: dial tcp 10.0.0.5:9000: connect: connection refused"`: "Unavailable: connection refused",
		"Internal: pq: password authentication failed for user admin":                                            "Internal",
		"dial tcp 10.0.0.6:6379: i/o timeout":                                                                    "i/o timeout",
		"hunter2":                                                                                                "",
	} {
		if got := sanitizeCause(cause); got != want {
			t.Errorf("%q: got %q, want %q", cause, got, want)
		}
	}
}
