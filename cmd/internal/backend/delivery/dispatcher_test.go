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

// The notifications of before were written while no dispatcher ran.
func TestSubscribersGetOnlyLaterEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := openFixture(t)
		f.notify(false)
		f.notify(false)
		second := int64(2)
		f.subscribe("first", "one.example")
		f.write(func(ctx context.Context, q *query.Queries) error {
			return q.InsertSubscriber(ctx, query.InsertSubscriberParams{
				ID: "later", TeamID: team, StatusPageID: page, Channel: delivery.Webhook, Address: "https://two.example/", LinkToken: "token",
				Secret: []byte("secret"), CreatedAt: second, ConfirmedAt: &second,
			})
		})
		got := &recorder{}
		f.runFor(2*time.Second, delivery.Options{Senders: webhooks(got)})
		if first, later := len(got.received("first")), got.received("later"); first != 2 || len(later) != 1 || later[0] != "update 0002" {
			t.Errorf("%d messages to the first subscriber, and %q to the later one", first, later)
		}
	})
}

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
				ID: "a", Address: "https://one.example/a?key=hidden", LinkToken: "token-a", Secrets: [][]byte{[]byte("new"), []byte("old")},
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

func TestConfirmationIsRequestedFromAnUnconfirmedSubscriber(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := openFixture(t)
		f.write(func(ctx context.Context, q *query.Queries) error {
			testkit.Must(t, q.InsertSubscriber(ctx, query.InsertSubscriberParams{
				ID: "a", TeamID: team, StatusPageID: page, Channel: delivery.Email, Address: "a@mail.example", LinkToken: "token", CreatedAt: 5,
			}))
			return q.InsertDeliveryAnyTeam(ctx, query.InsertDeliveryAnyTeamParams{
				ID: "delivery", SubscriberID: "a", Channel: delivery.Email, Now: time.Now().UnixNano(),
			})
		})
		f.notify(false)
		got := &recorder{}
		f.runFor(2*time.Second, delivery.Options{Senders: map[string]delivery.Sender{delivery.Email: got}})
		want := []delivery.Message{{
			ID: "delivery", Event: delivery.ConfirmationRequested, CreatedAt: time.Unix(0, 5).UTC(), Attempt: 1,
			Subscriber: delivery.Subscriber{ID: "a", Address: "a@mail.example", LinkToken: "token"},
			Page:       delivery.Page{ID: page, Name: "Shop", Hostname: "status.shop.example"},
		}}
		if diff := cmp.Diff(want, got.messages); diff != "" {
			t.Error(diff)
		}
	})
}

// Many subscribers of servers that hang come first; all others get their messages at once.
func TestHangingReceiversDelayNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := openFixture(t)
		const hosts, subscribers, others = 3, 300, 40
		for i := range hosts * subscribers {
			f.subscribe(fmt.Sprintf("a%04d", i), fmt.Sprintf("hangs%d.example", i%hosts))
		}
		for i := range others {
			f.subscribe(fmt.Sprintf("b%04d", i), "works.example")
		}
		got := &recorder{fail: func(ctx context.Context, m delivery.Message) error {
			if m.Subscriber.ID[0] == 'a' {
				<-ctx.Done()
			}
			return ctx.Err()
		}}
		r := f.start(delivery.Options{Senders: webhooks(got)})
		for n := range 3 { // with more and more that fail
			f.notify(false)
			pass(2 * time.Second)
			for i := range others {
				if texts := got.received(fmt.Sprintf("b%04d", i)); len(texts) != n+1 {
					t.Fatalf("%d of %d messages arrived", len(texts), n+1)
				}
			}
			pass(time.Minute)
		}
		r.end(t)
	})
}

// The number of attempts that start in an interval is bounded. Repeats take their part of it while a page with many subscribers is notified.
func TestFirstAttemptsDoNotDelayRepeats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := openFixture(t)
		const repeats, others = 20, 600
		for i := range repeats {
			f.subscribe(fmt.Sprintf("a%03d", i), "fails.example")
		}
		first := f.notify(false)
		got := &recorder{fail: func(_ context.Context, m delivery.Message) error {
			if m.Update.Message == first && m.Attempt == 1 {
				return errors.New("HTTP 500")
			}
			return nil
		}}
		r := f.start(delivery.Options{Senders: webhooks(got), Random: func() float64 { return 0.5 }})
		pass(4500 * time.Millisecond) // the repeats are due after 5 s
		for i := range others {
			f.subscribe(fmt.Sprintf("b%03d", i), fmt.Sprintf("host%d.example", i))
		}
		f.notify(false)
		pass(3 * time.Second)
		r.end(t)
		last := 0
		for i, m := range got.messages {
			if m.Attempt == 2 {
				last = i
			}
		}
		if all := 3*repeats + others; len(got.messages) != all || last == 0 || last > all/2 {
			t.Errorf("%d attempts, want %d; number %d is the last repeat", len(got.messages), all, last)
		}
	})
}

func TestConcurrencyIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := openFixture(t)
		for i := range 120 {
			f.subscribe(fmt.Sprintf("w%03d", i), fmt.Sprintf("host%d.example", i%12))
			f.subscribeBy(delivery.Email, fmt.Sprintf("e%03d", i))
		}
		var webhooks, emails, oneHost atomic.Int32
		bounded := func(running *atomic.Int32, limit int32) func() {
			if n := running.Add(1); n > limit {
				t.Errorf("%d at once, at most %d", n, limit)
			}
			return func() { running.Add(-1) }
		}
		slow := func(ctx context.Context, m delivery.Message) error {
			if m.Subscriber.ID[0] == 'e' {
				defer bounded(&emails, 4)()
			} else {
				defer bounded(&webhooks, 64)()
			}
			if m.Subscriber.Address[:16] == "https://host0.ex" {
				defer bounded(&oneHost, 8)()
			}
			<-time.After(time.Second)
			return nil
		}
		f.notify(false)
		got := &recorder{fail: slow}
		r := f.start(delivery.Options{Senders: map[string]delivery.Sender{delivery.Webhook: got, delivery.Email: got}})
		pass(500 * time.Millisecond)
		if n := webhooks.Load() + emails.Load(); n != 68 {
			t.Errorf("%d at once", n)
		}
		pass(time.Minute)
		if len(got.messages) != 240 {
			t.Errorf("%d messages", len(got.messages))
		}
		r.end(t)
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
