package delivery_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"opsgate/backendclient/testkit"
	"opsgate/cmd/internal/backend/delivery"
	"opsgate/cmd/internal/backend/store/query"
)

// One attempt ends within the grace period, the other is cancelled and is not counted.
func TestStopWaitsForAttemptsInProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := openFixture(t)
		f.subscribe("ends", "one.example")
		f.subscribe("hangs", "two.example")
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
		if len(got.messages) != 2 {
			t.Errorf("%d attempts", len(got.messages))
		}
		if got := f.states("ends"); !slices.Equal(got, []string{"delivered 1 ", "waiting 0 "}) {
			t.Errorf("%q", got)
		}
		if got := f.states("hangs"); !slices.Equal(got, []string{"waiting 0 ", "waiting 0 "}) {
			t.Errorf("%q", got)
		}
	})
}

// Another transaction takes minutes, and each worker has a result. The dispatcher stops nevertheless, and the
// next one sends the messages again.
func TestStopDoesNotWaitForAnotherWriter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := openFixture(t)
		const subscribers = 100
		for i := range subscribers {
			f.subscribe(fmt.Sprintf("s%03d", i), fmt.Sprintf("host%03d.example", i))
		}
		f.notify(false)
		locked := make(chan struct{})
		got := &recorder{fail: func(context.Context, delivery.Message) error {
			<-locked
			return nil
		}}
		r := f.start(delivery.Options{Senders: webhooks(got)})
		pass(1500 * time.Millisecond)
		unlock := f.lock()
		close(locked)
		pass(2 * time.Second)
		began := time.Now()
		r.end(t)
		if took := time.Since(began); took > 11*time.Second {
			t.Errorf("the stop took %s", took)
		}
		unlock()
		if sent := len(got.messages); sent == 0 || sent == subscribers {
			t.Fatalf("%d messages were sent before the stop", sent)
		}
		again := f.start(delivery.Options{Senders: webhooks(got)})
		pass(3 * time.Second)
		again.end(t)
		if n := f.count("deliveries WHERE state = 'delivered'"); n != subscribers {
			t.Errorf("%d deliveries are delivered", n)
		}
	})
}

// lock begins a write transaction, and returns a function that ends it.
func (f *fixture) lock() (unlock func()) {
	locked, end, ended := make(chan struct{}), make(chan struct{}), make(chan error)
	go func() {
		ended <- f.store.Write(context.Background(), func(*query.Queries) error {
			close(locked)
			<-end
			return nil
		})
	}()
	<-locked
	return func() {
		close(end)
		testkit.Must(f.t, <-ended)
	}
}
