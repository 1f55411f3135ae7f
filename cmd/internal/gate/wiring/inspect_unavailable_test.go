package wiring_test

import (
	"net/http"
	"testing"

	"opsgate/backendclient/testkit"
	"opsgate/cmd/internal/gate/admin"
)

func TestExplainAndResetWithAnUnavailableStore(t *testing.T) {
	i := inspect(t, "rate_limit: {store: redis, on_store_failure: deny, redis: {addresses: [127.0.0.1:1]}}\n")
	var x admin.Explanation
	testkit.Eventually(t, "the outage is noticed", func() bool {
		x = i.explain(t, "GET", "/v1/servers")
		return x.Answer.Status == 503
	})
	if a := x.Answer; a.Code != "unavailable" || a.RetryAfter < 1 || a.FailedCheck != "limits" {
		t.Errorf("got %+v", a)
	}
	if x.Limits[0].Remaining != nil || x.Limits[0].Reset != nil || x.Limits[0].Requests != 3 || x.Store.Error == "" {
		t.Errorf("got %+v, %+v", x.Limits[0], x.Store)
	}
	if status, body := i.do(t, http.MethodDelete, "/admin/limits/tok-1"); status != 503 {
		t.Errorf("a reset: got %d %s", status, body)
	}
}
