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

	"github.com/google/go-cmp/cmp"

	"opsgate/backendclient/testkit"
	"opsgate/cmd/internal/backend/delivery"
	"opsgate/cmd/internal/backend/store/query"
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
		f.notify(false)
		clock := &steppedClock{}
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

func TestMessageRefusedForEverIsADeadLetterAndBlocksNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := openFixture(t)
		f.subscribe("a", "one.example")
		first := f.notify(false)
		last := f.notify(false)
		long := strings.Repeat("ä", 400)
		got := &recorder{fail: func(_ context.Context, m delivery.Message) error {
			if m.Update.Message == first {
				return &delivery.Failure{Kind: delivery.Permanent, Reason: long}
			}
			return nil
		}}
		f.runFor(2*time.Second, delivery.Options{Senders: webhooks(got)})
		cut := string([]rune(long)[:300])
		if states := f.states("a"); !slices.Equal(states, []string{"dead 1 " + cut, "delivered 1 "}) {
			t.Errorf("%q", states)
		}
		if texts := got.received("a"); !slices.Equal(texts, []string{first, last}) {
			t.Errorf("%q", texts)
		}
	})
}

func TestRetriedDeadLetterIsTheSameMessage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := openFixture(t)
		f.subscribe("a", "one.example")
		f.notify(false)
		got := &recorder{fail: func(context.Context, delivery.Message) error { return &delivery.Failure{Kind: delivery.Permanent} }}
		r := f.start(delivery.Options{Senders: webhooks(got)})
		pass(2 * time.Second)
		f.write(func(ctx context.Context, q *query.Queries) error {
			return q.RetryDeliveryAnyTeam(ctx, query.RetryDeliveryAnyTeamParams{ID: got.messages[0].ID, Now: time.Now().UnixNano()})
		})
		pass(2 * time.Second)
		r.end(t)
		if diff := cmp.Diff(slices.Repeat(got.messages[:1], 2), got.messages); diff != "" {
			t.Error(diff)
		}
	})
}

func TestPanicOfASenderIsAFailedAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := openFixture(t)
		f.subscribe("a", "one.example")
		f.notify(false)
		var log bytes.Buffer
		got := &recorder{fail: func(_ context.Context, m delivery.Message) error { panic(m.Subscriber.Address) }}
		f.runFor(2*time.Second, delivery.Options{Senders: webhooks(got), Logger: slog.New(slog.NewJSONHandler(&log, nil))})
		if states := f.states("a"); !slices.Equal(states, []string{"waiting 1 the sender panicked"}) {
			t.Errorf("%q", states)
		}
		if text := log.String(); !strings.Contains(text, "failures_test.go") || strings.Contains(text, "hidden") {
			t.Error(text)
		}
	})
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
		for line, want := range map[string]int{`"level":"WARN"`: 100, `"level":"ERROR"`: 1, "hidden": 0, "token": 0} {
			if n := strings.Count(text, line); n != want {
				t.Errorf("%d lines have %s, not %d", n, line, want)
			}
		}
		for _, part := range []string{
			`"delivery":"` + got.messages[0].ID, `"subscriber":"s000"`, `"channel":"webhook"`, `"attempt":1`, `"cause":"HTTP 500"`,
			`"next_attempt":"`, `"receiver":"one.example"`,
		} {
			if !strings.Contains(text, part) {
				t.Errorf("no line has %s", part)
			}
		}
	})
}

// While the relay of emails is down, the channel pauses and tries one message at a time. No attempt is counted, none is a dead letter after
// a day, and webhooks are not affected.
func TestRelayThatIsDownPausesItsChannel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := openFixture(t)
		const subscribers = 20
		for i := range subscribers {
			f.subscribeBy(delivery.Email, fmt.Sprintf("e%02d", i))
		}
		f.subscribeBy(delivery.Webhook, "w")
		f.notify(false)
		var log bytes.Buffer
		var down atomic.Bool
		clock := &steppedClock{}
		down.Store(true)
		emails, hooks := &recorder{fail: func(context.Context, delivery.Message) error {
			if down.Load() {
				return &delivery.Failure{Kind: delivery.Relay, Reason: "connect: refused"}
			}
			return nil
		}}, &recorder{}
		r := f.start(delivery.Options{
			Senders: map[string]delivery.Sender{delivery.Email: emails, delivery.Webhook: hooks}, Clock: clock.now,
			Logger: slog.New(slog.NewTextHandler(&log, nil)),
		})
		pass(4 * time.Second)
		if len(hooks.messages) != 1 || len(emails.messages) > 4 {
			t.Errorf("%d webhooks, %d emails", len(hooks.messages), len(emails.messages))
		}
		first := len(emails.messages)
		const steps = 150 // 25 hours
		for range steps {
			clock.nanoseconds.Add((10 * time.Minute).Nanoseconds())
			pass(1500 * time.Millisecond)
		}
		if probes := len(emails.messages) - first; probes != steps {
			t.Errorf("%d attempts in %d pauses", probes, steps)
		}
		for i := range subscribers {
			if states := f.states(fmt.Sprintf("e%02d", i)); !slices.Equal(states, []string{"waiting 0 "}) {
				t.Fatalf("%q", states)
			}
		}
		down.Store(false)
		clock.nanoseconds.Add((10 * time.Minute).Nanoseconds())
		pass(10 * time.Second)
		r.end(t)
		for i := range subscribers {
			if states := f.states(fmt.Sprintf("e%02d", i)); !slices.Equal(states, []string{"delivered 1 "}) {
				t.Fatalf("%q", states)
			}
		}
		if lines := strings.Count(log.String(), "the relay of a channel fails"); lines != steps+1 || strings.Contains(log.String(), "level=WARN") {
			t.Errorf("%d lines", lines)
		}
	})
}

// A pause ends although the clock is set back during it, and the next one is as long as usual.
func TestPauseOfARelayEndsWhenTheClockIsSetBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := openFixture(t)
		clock := &steppedClock{}
		clock.nanoseconds.Store(time.Hour.Nanoseconds())
		emails := &recorder{fail: func(context.Context, delivery.Message) error {
			return &delivery.Failure{Kind: delivery.Relay, Reason: "connect: refused"}
		}}
		r := f.start(delivery.Options{Senders: map[string]delivery.Sender{delivery.Email: emails}, Clock: clock.now})
		for i := range 2 {
			clock.nanoseconds.Add(-(20 * time.Minute).Nanoseconds())
			f.subscribeBy(delivery.Email, fmt.Sprint(i))
			f.notify(false) // due by the present clock
			pass(3 * time.Second)
			if n := len(emails.messages); n != i+1 {
				t.Errorf("%d attempts, want %d", n, i+1)
			}
		}
		r.end(t)
	})
}

// Three hard bounces in a row stop a subscriber: waiting messages are dead letters, and no further ones are made. An accepted message
// begins the count anew.
func TestHardBouncesStopASubscriber(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := openFixture(t)
		f.subscribeBy(delivery.Email, "a")
		f.subscribeBy(delivery.Email, "b")
		accepted := map[string]bool{"update 0003": true}
		got := &recorder{fail: func(_ context.Context, m delivery.Message) error {
			if m.Subscriber.ID == "b" || accepted[m.Update.Message] {
				return nil
			}
			return &delivery.Failure{Kind: delivery.Bounced, Reason: "RCPT TO: 550 no such user"}
		}}
		for range 8 {
			f.notify(false)
		}
		r := f.start(delivery.Options{Senders: map[string]delivery.Sender{delivery.Email: got}})
		pass(5 * time.Second)
		f.notify(false)
		pass(5 * time.Second)
		r.end(t)
		const bounce, note = "dead 1 RCPT TO: 550 no such user", "stopped after 3 hard bounces: RCPT TO: 550 no such user"
		want := []string{bounce, bounce, "delivered 1 ", bounce, bounce, bounce, "dead 0 " + note, "dead 0 " + note}
		if states := f.states("a"); !slices.Equal(states, want) {
			t.Errorf("%q", states)
		}
		if n := len(got.received("b")); n != 9 {
			t.Errorf("%d messages to the other", n)
		}
		if n := f.count("subscribers WHERE id = 'a' AND stopped_at IS NOT NULL AND note = '" + note + "'"); n != 1 {
			t.Error("the subscriber has no note")
		}
		if n := f.count("audit_entries WHERE action_type = 'subscriber.stopped' AND resource_id = 'a'"); n != 1 {
			t.Errorf("%d audit entries", n)
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
