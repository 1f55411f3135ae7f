package wiring_test

import (
	"strings"
	"testing"

	"opsgate/gateway"
	"opsgate/internal/testkit"
)

func TestInvalidAnswerOfTheIdentityServiceIs500(t *testing.T) {
	i := start(t, overrides)
	i.readiness(t, "ready")
	i.services.Invalid.Store(true)
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
	i.services.Invalid.Store(false)
	i.mustGet(t, "/v1/servers", 200) // after a good answer
	i.readiness(t, "ready")
	if x := i.explain(t, "GET", "/v1/servers"); x.Identity.State != "ready" || outcomes(x)["token"] != gateway.Passes {
		t.Errorf("explained with identity %+v", x.Identity)
	}
}

// Lookups that fail without opening the breaker are reported, with the time until known tokens end
// on the admin page.
func TestFailingLookupsOfTokensAreReported(t *testing.T) {
	i := start(t, overrides+"authn: {fresh_for: 1s}\n")
	i.mustGet(t, "/v1/me", 200)
	i.services.Fails.Store(true)
	var ready response
	testkit.Eventually(t, "failing lookups are on the readiness page", func() bool {
		i.get(t, i.Address(), "/v1/me") // has the token looked up
		ready = i.get(t, i.AdminAddress(), "/readyz")
		return strings.Contains(ready.body, "no lookup of a token has succeeded")
	})
	if ready.status != 200 || !strings.Contains(ready.body, `"status":"degraded"`) || !strings.Contains(ready.body, `"state":"lookups fail"`) {
		t.Errorf("got %+v", ready)
	}
	i.services.Fails.Store(false)
	testkit.Eventually(t, "the identity service is ready again", func() bool {
		i.get(t, i.Address(), "/v1/me")
		return !strings.Contains(i.get(t, i.AdminAddress(), "/readyz").body, "lookups fail")
	})
}
