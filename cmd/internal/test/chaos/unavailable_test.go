package chaos

import (
	"context"
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// A service returns Unavailable for 30 s, at several request rates, and without a breaker. The short form omits low rates, because
// the initial burst of retries would dominate.
func TestRetriesAreLimitedDuringOutage(t *testing.T) {
	parallel(t)
	cases := []*unavailability{
		{rate: 300, what: "300 requests a second"},
		{rate: 300, what: "the same without a breaker", config: "upstream_calls: {breaker: {min_requests: 100000}}\n"},
	}
	if *full {
		cases = append(cases, &unavailability{rate: 10, what: "10 a second"}, &unavailability{rate: 2, what: "2 a second"})
	}
	for _, u := range cases {
		u.begin(t)
	}
	for _, u := range cases {
		u.check(t)
	}
}

// unavailability is a gateway with a service that is unavailable.
type unavailability struct {
	rate         float64
	what, config string
	attempts     atomic.Int64
	wait         func() responses
}

func (u *unavailability) begin(t *testing.T) {
	t.Helper()
	address := startFake(t, func(context.Context) error {
		u.attempts.Add(1)
		return status.Error(codes.Unavailable, "unavailable")
	})
	l := allReads(t, startGateway(t, withSharedIdentity(address), u.config+unlimited), u.rate)
	l.clients, l.duration = 16, either(30*time.Second, 4*time.Second)
	u.wait = l.start(t)
}

func (u *unavailability) check(t *testing.T) {
	t.Helper()
	all := u.wait()
	expectNone(t, "13", "responses other than 503", len(all.filter(func(a response) bool { return a.status != http.StatusServiceUnavailable })))
	ratio := float64(u.attempts.Load()) / float64(len(all))
	report(t, "13", "attempts ÷ requests, "+u.what, fmt.Sprintf("%d ÷ %d = %.2f", u.attempts.Load(), len(all), ratio), "at most 1.20")
	if !(ratio > 0 && ratio <= 1.2) {
		t.Errorf("%s: %.2f", u.what, ratio)
	}
}
