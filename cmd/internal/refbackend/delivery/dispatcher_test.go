package delivery_test

import (
	"slices"
	"testing"
	"time"

	"opsgate/cmd/internal/refbackend/delivery"
)

func TestNotificationsAreSentToEachSubscriberInOrder(t *testing.T) {
	bubble(t, func(t *testing.T, f *fixture) {
		f.subscribe("a", "one.example")
		f.subscribe("b", "two.example")
		first := f.notify(false)
		f.notify(true)
		got := &recorder{}
		r := f.start(delivery.Options{Senders: webhooks(got)})
		pass(2 * time.Second)
		last := f.notify(false)
		pass(2 * time.Second)
		r.end(t)
		for _, id := range []string{"a", "b"} {
			if texts := got.received(id); !slices.Equal(texts, []string{first, last}) {
				t.Errorf("%s received %q", id, texts)
			}
		}
	})
}
