package delivery_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"opsgate/backendclient/testkit"
	"opsgate/cmd/internal/backend/delivery"
	"opsgate/cmd/internal/backend/store"
	"opsgate/cmd/internal/backend/store/query"
)

func TestWakeStartsDeliveryAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := openFixture(t)
		f.subscribe("a", "one.example")
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
		f.subscribe("a", "one.example")
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
				ID: "a", Address: "https://one.example/a?key=hidden", Secrets: [][]byte{[]byte("new"), []byte("old")},
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

// Two processes share a data directory. The second takes over when the first ends.
func TestOnlyOneDispatcherOfADirectorySends(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := openFixture(t)
		f.subscribe("a", "one.example")
		f.notify(false)
		first, second := &recorder{}, &recorder{}
		one := f.start(delivery.Options{Senders: webhooks(first)})
		pass(2 * time.Second)
		other, err := store.Open(t.Context(), f.dir)
		testkit.Must(t, err)
		two := (&fixture{t: t, store: other}).start(delivery.Options{Senders: webhooks(second)})
		f.notify(false)
		pass(2 * time.Second)
		if len(first.messages) != 2 || len(second.messages) != 0 {
			t.Errorf("the first sent %d, the second %d", len(first.messages), len(second.messages))
		}
		one.end(t)
		f.notify(false)
		pass(2 * time.Second)
		if len(first.messages) != 2 || len(second.messages) != 1 {
			t.Errorf("then the first sent %d, the second %d", len(first.messages), len(second.messages))
		}
		waits := f.start(delivery.Options{Senders: webhooks(first)})
		pass(2 * time.Second)
		waits.end(t) // without the lock
		two.end(t)
		testkit.Must(t, other.Close())
	})
}

// Receivers that hang delay the first attempts of others until they have used their own, and repeats delay them for one attempt at most.
func TestHangingReceiversDelayOthersForOneAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := openFixture(t)
		const hang, work, workers = 192, 40, 64
		for i := range hang {
			f.subscribe(fmt.Sprintf("a%04d", i), "hangs.example")
		}
		for i := range work {
			f.subscribe(fmt.Sprintf("b%04d", i), "works.example")
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
