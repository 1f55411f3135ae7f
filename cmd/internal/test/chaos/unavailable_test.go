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
	cases := []struct {
		rate         float64
		what, config string
		attempts     atomic.Int64
		end          func() responses
	}{
		{rate: 300, what: "300 requests a second"},
		{rate: 300, what: "the same without a breaker", config: "upstream_calls: {breaker: {min_requests: 100000}}\n"},
		{rate: 10, what: "10 a second"},
		{rate: 2, what: "2 a second"},
	}
	cases = cases[:either(4, 2)]
	for i := range cases {
		c := &cases[i]
		l := allReads(t, startGateway(t, withSharedIdentity(startFake(t, func(context.Context) error {
			c.attempts.Add(1)
			return status.Error(codes.Unavailable, "unavailable")
		})), c.config+unlimited), c.rate)
		l.clients, l.duration = 16, either(30*time.Second, 4*time.Second)
		c.end = l.start(t)
	}
	for i := range cases {
		c := &cases[i]
		all := c.end()
		expectNone(t, "13", "responses other than 503", len(all.except(http.StatusServiceUnavailable)))
		ratio := float64(c.attempts.Load()) / float64(len(all))
		report(t, "13", "attempts ÷ requests, "+c.what, fmt.Sprintf("%d ÷ %d = %.2f", c.attempts.Load(), len(all), ratio), "at most 1.20")
		if !(ratio > 0 && ratio <= 1.2) {
			t.Errorf("%s: %.2f", c.what, ratio)
		}
	}
}
