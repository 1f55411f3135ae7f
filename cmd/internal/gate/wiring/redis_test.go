package wiring_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"opsgate/cmd/internal/gate/admin"
	"opsgate/cmd/internal/test/servicestest"
	"opsgate/internal/testkit"
	"opsgate/ratelimit/redisstore/redistest"
)

// inRedis returns a configuration of one limit per minute, counted in Redis.
func inRedis(address string, requests int, more string) string {
	return fmt.Sprintf("rate_limit:\n  store: redis\n  expected_replicas: 2\n  redis: {addresses: [%q], timeout: 5s}\n"+
		"  limits: [{requests: %d, per: 1m}]\n%s", address, requests, more)
}

// redis returns the state of Redis on the readiness page.
func (r *running) redis(t *testing.T) admin.Dependency {
	t.Helper()
	var body struct{ Dependencies map[string]admin.Dependency }
	testkit.Must(t, json.Unmarshal([]byte(r.get(t, r.AdminAddress(), "/readyz").body), &body))
	return body.Dependencies["redis"]
}

// store returns the state of the store.
func (r *running) store(t *testing.T) admin.Store {
	t.Helper()
	return getJSON[admin.TokenLimits](t, r, "/admin/limits/"+servicestest.TokenID).Store
}

// Two gateways count each other in Redis, and each admits its half in an outage. A configured
// number overrides the count.
func TestNumberOfGatewaysIsKeptInAnOutage(t *testing.T) {
	server := redistest.Start(t)
	services := servicestest.Start(t)
	auto := strings.Replace(inRedis(server.Addr(), 10, ""), "expected_replicas: 2", "expected_replicas: auto", 1)
	first := startWith(t, services, auto)
	if n := first.store(t).Replicas; n != 1 {
		t.Errorf("the first gateway counts %d gateways", n)
	}
	second := startWith(t, services, auto)
	for _, r := range []*running{first, second} {
		testkit.Eventually(t, "both are counted", func() bool { return r.store(t).Replicas == 2 })
	}
	server.Kill()
	for _, r := range []*running{first, second} {
		admitted := 0
		testkit.Eventually(t, "the gateway is in local mode", func() bool {
			for range 10 {
				if r.get(t, r.Address(), "/v1/servers").status == 200 {
					admitted++
				}
			}
			return r.store(t).Mode == "local"
		})
		if store := r.store(t); admitted != 5 || store.Replicas != 2 {
			t.Errorf("%d of 10 admitted, %+v", admitted, store)
		}
	}
	testkit.Must(t, first.reload(t, strings.Replace(auto, "expected_replicas: auto", "expected_replicas: 5", 1)))
	if n := first.store(t).Replicas; n != 5 {
		t.Errorf("configured: %d gateways", n)
	}
	if log := first.log.String(); !strings.Contains(log, `"msg":"number of gateways changed","old":1,"new":2`) {
		t.Errorf("got\n%s", log)
	}
}
