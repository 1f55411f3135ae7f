package failover_test

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"opsgate/ratelimit"
	"opsgate/ratelimit/failover"
	"opsgate/ratelimit/ratelimittest"
)

// An env is a shared store, a store that runs until the end of the test, and a policy.
type env struct {
	t       *testing.T
	shared  *sharedStore
	store   *failover.Store
	metrics *prometheus.Registry
	policy  *ratelimit.Policy
}

func newEnv(t *testing.T, settings failover.Settings, limits ...ratelimit.Limit) *env {
	t.Helper()
	e := &env{t: t, shared: newShared(), metrics: prometheus.NewRegistry(), policy: ratelimittest.Policy(t, limits...)}
	e.store = newStore(t, failover.Options{Shared: e.shared, Settings: settings, Registerer: e.metrics})
	t.Cleanup(run(t, e.store))
	return e
}

func (e *env) decide(token string) ratelimit.Decision {
	e.t.Helper()
	return decide(e.t, e.store, token, e.policy)
}

// admitted makes requests at once and returns the number of admitted ones.
func (e *env) admitted(token string, requests int) int {
	e.t.Helper()
	return admitted(e.t, e.store, token, e.policy, requests)
}

// used returns the number of admissions that count in the shared store.
func (e *env) used(token string) int { return e.shared.used(token, e.policy) }

// beginOutage makes the shared store fail until the store begins an outage.
func (e *env) beginOutage(c condition) {
	e.t.Helper()
	e.shared.become(c)
	beginOutage(e.t, e.store, e.policy)
}

// endOutage makes the shared store work, and returns after the pause.
func (e *env) endOutage() {
	e.t.Helper()
	e.shared.become(working)
	awaitRecovery(e.t, e.store)
}

// metric returns the value of a counter without labels.
func (e *env) metric(name string) float64 {
	e.t.Helper()
	families, err := e.metrics.Gather()
	if err != nil {
		e.t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == name {
			return f.GetMetric()[0].GetCounter().GetValue()
		}
	}
	e.t.Fatalf("no metric %s", name)
	return 0
}
