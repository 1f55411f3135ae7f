package backendclient_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc/codes"

	"opsgate/backendclient"
	identityv1 "opsgate/proto/ops/identity/v1"
)

func TestCallsInFlightAreLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, registry := &wire{answer: hang}, prometheus.NewRegistry()
		clients := overWire(t, w, func(o *backendclient.Options) { o.MaxInFlight, o.Registerer = 5, registry })
		for range 5 {
			go func() { _ = callFor(t, clients, time.Minute) }()
		}
		synctest.Wait()
		const inFlight = "opsgate_upstream_requests_in_flight"
		mustCount(t, registry, inFlight, 5)
		begin := time.Now()
		e := failure(t, call(t, clients))
		if e.Code != codes.Unavailable || e.Reason != backendclient.ReasonOverloaded || e.RetryAfter != time.Second {
			t.Errorf("%v, reason %q, retry after %v", e, e.Reason, e.RetryAfter)
		}
		if time.Since(begin) != 0 || w.attempts.Load() != 5 {
			t.Errorf("%d attempts after %v", w.attempts.Load(), time.Since(begin))
		}
		if n := series(t, registry, "opsgate_upstream_refused_requests_total")["reason=overloaded service=fleet"]; n != 1 {
			t.Errorf("%v refused, want 1", n)
		}
		_, err := clients.Identity.ResolveToken(t.Context(), &identityv1.ResolveTokenRequest{})
		if isRefused(t, err, e.Reason) {
			t.Error("another service's calls are refused")
		}
		higher := backendclient.DefaultSettings()
		higher.MaxInFlight = 6
		clients.Apply(higher)
		if isRefused(t, call(t, clients), e.Reason) {
			t.Error("the higher limit does not apply")
		}
		lower := higher
		lower.MaxInFlight = 5
		clients.Apply(lower)
		if !isRefused(t, call(t, clients), e.Reason) {
			t.Error("calls before the change do not count towards the lower limit")
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		mustCount(t, registry, inFlight, 0)
		if isRefused(t, call(t, clients), e.Reason) {
			t.Error("a call after the others is refused")
		}
	})
}
