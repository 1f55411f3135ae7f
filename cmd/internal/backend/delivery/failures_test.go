package delivery_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"opsgate/backendclient/testkit"
	"opsgate/cmd/internal/backend/delivery"
	"opsgate/cmd/internal/backend/store/storetest"
)

// A steppedClock has the time that a test sets.
type steppedClock struct{ nanoseconds atomic.Int64 }

func (c *steppedClock) now() time.Time { return time.Unix(0, c.nanoseconds.Load()) }

// pauses fails all attempts, and returns the time from each attempt to the next.
func pauses(t *testing.T, random float64) (between []time.Duration) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		f := openFixture(t)
		f.subscribe("a", "one.example")
		clock := &steppedClock{}
		f.clock = clock.now
		f.notify(false)
		got := &recorder{fail: func(context.Context, delivery.Message) error { return errors.New("HTTP 500") }}
		r := f.start(delivery.Options{Senders: webhooks(got), Clock: clock.now, Random: func() float64 { return random }})
		for {
			pass(1500 * time.Millisecond)
			due := f.due("a")
			if due == 0 {
				break
			}
			attempts := len(got.messages)
			between = append(between, time.Duration(due-clock.nanoseconds.Load()))
			clock.nanoseconds.Store(due - 1)
			pass(1500 * time.Millisecond)
			if len(got.messages) != attempts {
				t.Fatal("an attempt before its time")
			}
			clock.nanoseconds.Store(due)
		}
		if age := clock.now().UnixNano(); age != (24 * time.Hour).Nanoseconds() {
			t.Errorf("dead after %s", time.Duration(age))
		}
		want := fmt.Sprintf("dead %d HTTP 500", len(between)+1)
		if states := f.states("a"); !slices.Equal(states, []string{want}) || len(got.messages) != len(between)+1 {
			t.Errorf("%q after %d attempts", states, len(got.messages))
		}
		r.end(t)
	})
	return between
}

func TestFailedAttemptsAreRepeatedForADay(t *testing.T) {
	table := []time.Duration{
		5 * time.Second, 30 * time.Second, 2 * time.Minute, 10 * time.Minute, 30 * time.Minute, time.Hour, 2 * time.Hour,
		4 * time.Hour, 4 * time.Hour, 4 * time.Hour, 4 * time.Hour, 4 * time.Hour,
	}
	got := pauses(t, 0.5)
	if last := len(got) - 1; last < 0 || !slices.Equal(got[:last], table) {
		t.Errorf("%s", got)
	}
	for random, factor := range map[float64]float64{0: 0.8, 0.999999: 1.2} {
		for i, pause := range pauses(t, random)[:8] {
			want := time.Duration(float64(table[i]) * factor)
			if (pause - want).Abs() > time.Second {
				t.Errorf("pause %d with jitter is %s, not %s", i, pause, want)
			}
		}
	}
}

func TestFailuresAreLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := openFixture(t)
		for i := range 100 {
			f.subscribe(fmt.Sprintf("s%03d", i), "one.example")
		}
		f.notify(false)
		var log bytes.Buffer
		logger := slog.New(slog.NewJSONHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
		got := &recorder{fail: func(_ context.Context, m delivery.Message) error {
			if m.Update.Message == "update 0002" {
				return &delivery.Failure{Kind: delivery.Permanent}
			}
			return errors.New("HTTP 500")
		}}
		r := f.start(delivery.Options{Senders: webhooks(got), Logger: logger})
		pass(2500 * time.Millisecond)
		f.subscribe("z", "two.example")
		f.notify(false)
		pass(2 * time.Second)
		r.end(t)
		text := log.String()
		for line, want := range map[string]int{`"level":"WARN"`: 100, `"level":"ERROR"`: 1, "hidden": 0} {
			if n := strings.Count(text, line); n != want {
				t.Errorf("%d lines have %s, not %d", n, line, want)
			}
		}
		for _, part := range []string{
			`"delivery":"` + got.messages[0].ID, `"subscriber":"s000"`, `"channel":"webhook"`, `"attempt":1`, `"cause":"HTTP 500"`,
			`"next_attempt":"`,
		} {
			if !strings.Contains(text, part) {
				t.Errorf("no line has %s", part)
			}
		}
	})
}

func TestFailureOfTheDatabaseIsLoggedOnceAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := openFixture(t)
		var log bytes.Buffer
		r := f.start(delivery.Options{Senders: webhooks(&recorder{}), Logger: slog.New(slog.NewTextHandler(&log, nil))})
		pass(2 * time.Second)
		_, err := storetest.Open(t, f.dir, "").ExecContext(t.Context(), "ALTER TABLE deliveries RENAME TO lost")
		testkit.Must(t, err)
		pass(90 * time.Second)
		r.end(t)
		if n := strings.Count(log.String(), "looking for due deliveries failed"); n != 2 {
			t.Errorf("%d lines:\n%s", n, log.String())
		}
	})
}
