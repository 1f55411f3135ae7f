package gateway

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"opsgate/internal/testkit"
	"opsgate/ratelimit"
)

// refundLimiter admits requests and records refunds. If release is not nil, a refund waits until it
// is closed or its context ends.
type refundLimiter struct {
	Limiter

	release chan struct{}

	mu       sync.Mutex
	refunded []ratelimit.Decision
}

func (l *refundLimiter) Refund(ctx context.Context, _ string, d ratelimit.Decision) error {
	if l.release != nil {
		select {
		case <-l.release:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.refunded = append(l.refunded, d)
	return nil
}

// failing starts a gateway with a failing service, and a limit of 3 requests per minute.
func failing(t *testing.T, release chan struct{}) (*harness, *refundLimiter) {
	t.Helper()
	l := &refundLimiter{release: release}
	h, _ := limited(t, []ratelimit.Limit{{Name: "minute", Requests: 3, Per: time.Minute}}, func(o *Options) {
		l.Limiter = o.Limiter
		o.Limiter = l
	})
	h.services.fail("ListServers", status.Error(codes.Unavailable, "unavailable"))
	return h, l
}

func TestResponseDoesNotWaitForItsRefund(t *testing.T) {
	release := make(chan struct{})
	h, l := failing(t, release)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- h.gateway.options.Refunds.Run(ctx) }()
	got := h.get(t, "/v1/servers") // returns although the refund is blocked
	got.mustFail(t, 503, "unavailable")
	mustHaveHeader(t, got.Header, "RateLimit", budgetOf("minute", 3, 0))
	if l.refunded != nil {
		t.Error("refunded before it was released")
	}
	close(release)
	cancel()
	if err := <-ended; err != nil || len(l.refunded) != 1 {
		t.Errorf("%d refunds, %v", len(l.refunded), err)
	}
}

func TestRefundsAreSentOnceWithTheDecisionOfTheRequest(t *testing.T) {
	h, l := failing(t, nil)
	h.get(t, "/v1/servers").mustBe(t, 503)
	h.get(t, "/v1/servers").mustBe(t, 503)
	h.get(t, "/v1/nothing").mustBe(t, 404) // a 4xx is not refunded
	h.sendRefunds(t)
	h.sendRefunds(t)
	if len(l.refunded) != 2 {
		t.Fatalf("%d refunds, want 2", len(l.refunded))
	}
	if remaining := l.refunded[0].Budgets[0].Remaining + l.refunded[1].Budgets[0].Remaining; remaining != 2+1 || !l.refunded[0].Allowed {
		t.Errorf("%+v: not the limiter's decisions", l.refunded)
	}
	mustCount(t, h, "opsgate_rate_limit_refunds_total", map[string]float64{"": 2})
	mustCount(t, h, "opsgate_rate_limit_refunds_dropped_total", nil)
}

// A client could otherwise repeat the request for free as long as its data is too large.
func TestResponseThatIsTooLargeIsNotRefunded(t *testing.T) {
	h, l := failing(t, nil)
	h.services.fail("ListServers", errTooLarge())
	for used := int64(1); used <= 3; used++ {
		got := h.get(t, "/v1/servers")
		got.mustFail(t, 500, "internal_error")
		mustHaveHeader(t, got.Header, "RateLimit", budgetOf("minute", 3-used, 60))
	}
	h.get(t, "/v1/servers").mustFail(t, 429, "rate_limited")
	h.sendRefunds(t)
	if len(l.refunded) != 0 {
		t.Errorf("%d refunds", len(l.refunded))
	}
}

func TestFailedRefundIsCountedAndLoggedAndNotRepeated(t *testing.T) {
	budgets := [ratelimit.MaxLimits]ratelimit.Budget{{Remaining: 7, Reset: time.Second}}
	decision := ratelimit.Decision{Allowed: true, DeniedBy: -1, ShadowDeniedBy: -1, Budgets: budgets}
	h := start(t, func(o *Options) { o.Limiter = scriptedLimiter{decision: decision, refund: errors.New("unavailable")} })
	h.services.fail("ListServers", status.Error(codes.Unavailable, "unavailable"))
	got := h.get(t, "/v1/servers", "X-Request-Id: failed-request")
	mustHaveHeader(t, got.Header, "RateLimit", budgetOf("second", 8, 1))
	h.sendRefunds(t)
	h.sendRefunds(t)
	mustCount(t, h, "opsgate_rate_limit_refunds_total", nil)
	mustCount(t, h, "opsgate_rate_limit_refunds_dropped_total", map[string]float64{"failed": 1})
	line := `"a failed request was not refunded","request_id":"failed-request","reason":"failed","error":"unavailable"`
	if strings.Count(h.log.String(), line) != 1 {
		t.Error(h.log.String())
	}
}

func TestFullQueueDropsRefunds(t *testing.T) {
	h, l := failing(t, nil)
	for range maxQueuedRefunds {
		h.gateway.options.Refunds.add(&refund{})
	}
	h.get(t, "/v1/servers", "X-Request-Id: one-too-many").mustBe(t, 503)
	mustCount(t, h, "opsgate_rate_limit_refunds_dropped_total", map[string]float64{"queue_full": 1})
	if !strings.Contains(h.log.String(), `"request_id":"one-too-many","reason":"queue_full"`) {
		t.Error(h.log.String())
	}
	h.sendRefunds(t)
	if len(l.refunded) != maxQueuedRefunds {
		t.Errorf("%d refunds sent of %d queued", len(l.refunded), maxQueuedRefunds)
	}
}

func TestShutdownDoesNotWaitForALimiterThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &refundLimiter{release: make(chan struct{})}
		registry := prometheus.NewRegistry()
		m, err := NewMetrics(registry)
		testkit.Must(t, err)
		f := NewRefunds(RefundsOptions{Limiter: l, Metrics: m})
		for range refundWorkers + 3 {
			f.add(&refund{})
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		began := time.Now()
		if err := f.Run(ctx); err != nil || time.Since(began) != RefundFlushTimeout {
			t.Errorf("ended after %v: %v", time.Since(began), err)
		}
		mustCount(t, &harness{registry: registry}, "opsgate_rate_limit_refunds_dropped_total", map[string]float64{
			refundFailed: refundWorkers, refundShutdown: 3,
		})
	})
}
