package delivery

import (
	"context"
	"flag"
	"path"
	"strconv"
	"testing"
	"time"

	"opsgate/backendclient/testkit"
)

var many = flag.Int("subscribers", 1000, "subscribers of the page in TestManySubscribers")

// hanging is the number of webhooks whose receivers accept the connection and never respond.
const hanging = 4

// One incident is delivered to many subscribers, also while some receivers hang. The test prints the figures.
func TestManySubscribers(t *testing.T) {
	testkit.SkipIfShort(t)
	to := startReceivers(t, func(ctx context.Context, subscriber string) bool {
		number, err := strconv.Atoi(path.Base(subscriber))
		if err != nil || number > 2*hanging { // every second subscriber has a webhook
			return false
		}
		<-ctx.Done()
		return true
	})
	p := newPage(t, to, *many)
	s := startService(t, p.data, to)
	begun := time.Now()
	_, err := s.incident.CreateIncident(t.Context(), p.incident("mark-1-0"))
	testkit.Must(t, err)
	created := time.Since(begun)
	awaitMessages(t, *many-hanging, to.count)
	took := time.Since(begun)
	if n := len(firstArrivals(to.all())); n != *many-hanging {
		t.Errorf("%d of %d subscribers received the message", n, *many)
	}
	t.Logf("%d subscribers, %d of which hang: the call took %v, the messages %v, %.0f a second", *many, hanging,
		created.Round(time.Millisecond), took.Round(time.Millisecond), float64(*many-hanging)/took.Seconds())
}
