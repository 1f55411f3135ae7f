package chaostest

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

// A service that says Unavailable to everything for half a minute, to many clients and to few, and to many without a breaker. In the
// short form a few requests are too few: the retries that may come at once outweigh them.
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
		u.judge(t)
	}
}

// An unavailability is a service that is away to a gateway of its own.
type unavailability struct {
	rate         float64
	what, config string
	attempts     atomic.Int64
	wait         func() answers
}

func (u *unavailability) begin(t *testing.T) {
	t.Helper()
	address := startFake(t, func(context.Context) error {
		u.attempts.Add(1)
		return status.Error(codes.Unavailable, "away")
	})
	l := allReads(t, startGateway(t, beforeTokens(address), u.config+unlimited), u.rate)
	l.clients, l.duration = 16, either(30*time.Second, 4*time.Second)
	u.wait = l.start(t)
}

func (u *unavailability) judge(t *testing.T) {
	t.Helper()
	all := u.wait()
	expectNone(t, "13", "answers other than 503", len(all.filter(func(a answer) bool { return a.status != http.StatusServiceUnavailable })))
	ratio := float64(u.attempts.Load()) / float64(len(all))
	report(t, "13", "attempts ÷ requests, "+u.what, fmt.Sprintf("%d ÷ %d = %.2f", u.attempts.Load(), len(all), ratio), "at most 1.20")
	if !(ratio > 0 && ratio <= 1.2) {
		t.Errorf("%s: %.2f", u.what, ratio)
	}
}
