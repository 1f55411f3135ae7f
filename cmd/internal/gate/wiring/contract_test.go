package wiring_test

import (
	"strings"
	"testing"

	"opsgate/gateway"
)

func TestInvalidAnswerOfTheIdentityServiceIs500(t *testing.T) {
	i := inspect(t, overrides)
	i.readiness(t, "ready")
	i.services.invalid.Store(true)
	got := i.get(t, i.Address(), "/v1/servers")
	if got.status != 500 || !strings.Contains(got.body, `"code":"internal_error"`) || strings.Contains(got.body, "hunter2") {
		t.Errorf("got %+v", got)
	}
	if line := i.log.String(); !strings.Contains(line, `"cause":"contract:identity"`) || strings.Contains(line, "hunter2") {
		t.Errorf("the log has %s", line)
	}
	ready := i.readiness(t, "degraded")
	if ready.status != 200 || !strings.Contains(ready.body, "team ids that are not UUIDs") || strings.Contains(ready.body, "hunter2") {
		t.Errorf("got %+v", ready)
	}
	if x := i.explain(t, "GET", "/v1/servers"); x.Identity.State != "invalid answers" {
		t.Errorf("explained with identity %+v", x.Identity)
	}
	i.services.invalid.Store(false)
	if got := i.get(t, i.Address(), "/v1/servers"); got.status != 200 {
		t.Errorf("after a good answer: got %+v", got)
	}
	i.readiness(t, "ready")
	if x := i.explain(t, "GET", "/v1/servers"); x.Identity.State != "ready" || outcomes(x)["token"] != gateway.Passes {
		t.Errorf("explained with identity %+v", x.Identity)
	}
}
