package delivery_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"opsgate/cmd/internal/backend/delivery"
	"opsgate/cmd/internal/backend/store/query"
	"opsgate/internal/testkit"
)

func TestWakeStartsDeliveryAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := openFixture(t)
		f.subscribe("a", delivery.Webhook)
		wake := make(chan struct{})
		got := &recorder{}
		r := f.start(delivery.Options{Senders: webhooks(got), Wake: func() <-chan struct{} { return wake }})
		pass(10 * time.Millisecond)
		f.notify(false)
		pass(10 * time.Millisecond)
		early := len(got.received("a"))
		wake <- struct{}{}
		pass(10 * time.Millisecond)
		if late := len(got.received("a")); early != 0 || late != 1 {
			t.Errorf("%d messages before, %d after", early, late)
		}
		r.end(t)
	})
}

// The incident is resolved between two attempts, and the rotation of the secret ends.
func TestMessageIsTheSameAtEachAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := openFixture(t)
		f.subscribe("a", delivery.Webhook)
		until := time.Now().Add(3 * time.Second).UnixNano()
		f.write(func(ctx context.Context, q *query.Queries) error {
			return q.SetSubscriberSecretsAnyTeam(ctx, query.SetSubscriberSecretsAnyTeamParams{
				ID: "a", Secret: []byte("new"), PreviousSecret: []byte("old"), PreviousSecretUntil: &until,
			})
		})
		text := f.notify(false)
		got := &recorder{fail: func(_ context.Context, m delivery.Message) error {
			if m.Attempt == 1 {
				return errors.New("HTTP 500")
			}
			return nil
		}}
		r := f.start(delivery.Options{Senders: webhooks(got)})
		pass(2 * time.Second)
		f.write(func(ctx context.Context, q *query.Queries) error {
			now := int64(9)
			return q.SetIncidentStatus(ctx, query.SetIncidentStatusParams{TeamID: team, ID: f.incident.ID, Status: "resolved", ResolvedAt: &now})
		})
		pass(8 * time.Second)
		r.end(t)
		nanosecond := func(n int64) time.Time { return time.Unix(0, n).UTC() }
		want := delivery.Message{
			ID: got.messages[0].ID, Event: delivery.UpdatePosted, CreatedAt: nanosecond(1), Attempt: 1,
			Subscriber: delivery.Subscriber{
				ID: "a", Address: "https://a.example/?key=hidden", Secrets: [][]byte{[]byte("new"), []byte("old")},
			},
			Page: delivery.Page{ID: page, Name: "Shop", Hostname: "status.shop.example"},
			Incident: delivery.Incident{
				ID: "incident", Title: "Checkout is slow", Impact: "major", StartedAt: nanosecond(7),
				Components: []delivery.Component{{ID: "API", Name: "API"}, {ID: "Checkout", Name: "Checkout"}},
			},
			Update: delivery.Update{ID: text, Status: "identified", Message: text, CreatedAt: nanosecond(1)},
		}
		again := want
		again.Attempt, again.Subscriber.Secrets = 2, want.Subscriber.Secrets[:1]
		if diff := cmp.Diff([]delivery.Message{want, again}, got.messages); diff != "" || !isUUID(want.ID) {
			t.Error(diff, want.ID)
		}
	})
}

// Receivers that hang delay the first attempts of others until they have used their own, and
// repeats delay them for one attempt at most.
func TestHangingReceiversDelayOthersForOneAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := openFixture(t)
		const hang, work, workers = 192, 40, 64
		for i := range hang {
			f.subscribe(fmt.Sprintf("a%04d", i), delivery.Webhook)
		}
		for i := range work {
			f.subscribe(fmt.Sprintf("b%04d", i), delivery.Webhook)
		}
		var running atomic.Int32
		got := &recorder{fail: func(ctx context.Context, m delivery.Message) error {
			if n := running.Add(1); n > workers {
				t.Errorf("%d attempts at once", n)
			}
			defer running.Add(-1)
			if m.Subscriber.ID[0] == 'a' {
				<-ctx.Done()
			}
			return ctx.Err()
		}}
		r := f.start(delivery.Options{Senders: webhooks(got)})
		for n, longest := range []time.Duration{hang / workers * attemptTimeout, attemptTimeout, attemptTimeout} { // repeats use all workers from the second on
			f.notify(false)
			pass(longest + 2*time.Second)
			for i := range work {
				if texts := got.received(fmt.Sprintf("b%04d", i)); len(texts) != n+1 {
					t.Fatalf("%d of %d messages arrived", len(texts), n+1)
				}
			}
		}
		r.end(t)
	})
}

// One attempt ends within the grace period, the other is cancelled and is not counted.
func TestStopWaitsForAttemptsInProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := openFixture(t)
		f.subscribe("ends", delivery.Webhook)
		f.subscribe("hangs", delivery.Webhook)
		f.notify(false)
		f.notify(false)
		got := &recorder{fail: func(ctx context.Context, m delivery.Message) error {
			end := time.After(3 * time.Second)
			if m.Subscriber.ID == "hangs" {
				end = nil
			}
			select {
			case <-end:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}}
		r := f.start(delivery.Options{Senders: webhooks(got)})
		pass(1500 * time.Millisecond)
		began := time.Now()
		r.end(t)
		if took := time.Since(began); took < 4*time.Second || took > 6*time.Second {
			t.Errorf("the stop took %s", took)
		}
		if got := f.states("ends"); !slices.Equal(got, []string{"delivered 1 ", "waiting 0 "}) {
			t.Errorf("%q", got)
		}
		if got := f.states("hangs"); !slices.Equal(got, []string{"waiting 0 ", "waiting 0 "}) {
			t.Errorf("%q", got)
		}
	})
}

// Another transaction takes minutes, so that results cannot be written. The dispatcher stops
// nevertheless.
func TestStopDoesNotWaitForAnotherWriter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := openFixture(t)
		f.subscribe("a", delivery.Webhook)
		f.notify(false)
		locked, end := make(chan struct{}), make(chan struct{})
		got := &recorder{fail: func(context.Context, delivery.Message) error {
			<-locked
			return nil
		}}
		r := f.start(delivery.Options{Senders: webhooks(got)})
		var writer sync.WaitGroup
		writer.Go(func() {
			testkit.Must(t, f.store.Write(context.Background(), func(*query.Queries) error {
				close(locked)
				<-end
				return nil
			}))
		})
		pass(2 * time.Second)
		began := time.Now()
		r.end(t)
		if took := time.Since(began); took < 9*time.Second || took > 11*time.Second {
			t.Errorf("the stop took %s", took)
		}
		close(end)
		writer.Wait()
		if got := f.states("a"); !slices.Equal(got, []string{"waiting 0 "}) {
			t.Errorf("%q", got)
		}
	})
}

func TestFailedAttemptsAreRepeatedForADay(t *testing.T) {
	failure, day := errors.New("HTTP 500"), 24*time.Hour
	for attempts, want := range []time.Duration{
		5 * time.Second, 30 * time.Second, 2 * time.Minute, 10 * time.Minute, 30 * time.Minute, time.Hour, 2 * time.Hour, 4 * time.Hour, 4 * time.Hour,
	} {
		for _, random := range []float64{0, 0.5, 1} { // jitter of a fifth
			kind, pause := delivery.Judge(int64(attempts), 0, random, failure)
			if want := time.Duration(float64(want) * (0.8 + 0.4*random)); kind != "failed" || (pause-want).Abs() > time.Millisecond {
				t.Errorf("attempt %d: %s for %s, not %s", attempts+1, kind, pause, want)
			}
		}
	}
	if kind, pause := delivery.Judge(11, day-time.Minute, 0.5, failure); kind != "failed" || pause != time.Minute {
		t.Errorf("the last attempt: %s for %s", kind, pause)
	}
	if kind, _ := delivery.Judge(12, day, 0.5, failure); kind != "dead" {
		t.Errorf("after a day: %s", kind)
	}
}

// Each outcome is counted, and what is not delivered is logged, without addresses.
func TestOutcomesAreCountedAndLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := openFixture(t)
		for _, id := range []string{"ok", "fails", "refuses", "gone"} {
			f.subscribe(id, delivery.Webhook)
		}
		f.notify(false)
		got := &recorder{fail: func(_ context.Context, m delivery.Message) error {
			return map[string]error{
				"fails": errors.New("HTTP 500"), "refuses": &delivery.Failure{Kind: delivery.Permanent}, "gone": &delivery.Failure{Kind: delivery.Gone},
			}[m.Subscriber.ID]
		}}
		registry, log := prometheus.NewPedanticRegistry(), new(bytes.Buffer)
		r := f.start(delivery.Options{Senders: webhooks(got), Registerer: registry, Logger: slog.New(slog.NewTextHandler(log, nil))})
		pass(3 * time.Second)
		r.end(t)
		families, err := registry.Gather()
		testkit.Must(t, err)
		want := map[string]float64{
			"opsbackend_dead_letters email": 0, "opsbackend_dead_letters webhook": 1,
			"opsbackend_deliveries_total webhook dead": 1, "opsbackend_deliveries_total webhook delivered": 1,
			"opsbackend_deliveries_total webhook failed": 1, "opsbackend_deliveries_total webhook removed": 1,
			"opsbackend_deliveries_waiting email": 0, "opsbackend_deliveries_waiting webhook": 1,
			"opsbackend_delivery_oldest_waiting_seconds": 3,
		}
		if diff := cmp.Diff(want, values(families)); diff != "" {
			t.Error(diff)
		}
		for part, want := range map[string]int{
			"level=WARN": 2, "level=ERROR": 1, `cause="HTTP 500" next_attempt=`: 1, "subscriber=refuses channel=webhook attempt=1": 1, "hidden": 0,
		} {
			if n := strings.Count(log.String(), part); n != want {
				t.Errorf("%s: %d, not %d\n%s", part, n, want, log)
			}
		}
	})
}

// values returns the values of metrics by name and labels: of histograms the counts.
func values(families []*dto.MetricFamily) map[string]float64 {
	values := map[string]float64{}
	for _, family := range families {
		for _, m := range family.GetMetric() {
			name := family.GetName()
			for _, label := range m.GetLabel() {
				name += " " + label.GetValue()
			}
			values[name] = m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
		}
	}
	return values
}
