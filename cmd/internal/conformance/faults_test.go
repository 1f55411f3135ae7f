package conformance_test

import (
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"opsgate/cmd/internal/conformance"
)

// Each fault makes exactly its checks fail, and each check fails for at least one fault.
func TestChecksFindEveryFault(t *testing.T) {
	backend := startReference(t)
	var mu sync.Mutex
	found := map[string]bool{}
	t.Cleanup(func() { // after the parallel tests
		for _, check := range conformance.Checks() {
			if !found[check.Name] {
				t.Errorf("no fault makes %s fail", check.Name)
			}
		}
	})
	for _, f := range slices.Concat(generalFaults(), readFaults(), listFaults(), writeFaults(), keyFaults(), identityFaults()) {
		t.Run(f.name, func(t *testing.T) {
			o := options(t, startFaulty(t, backend, f))
			o.Checks = f.affectedChecks(o.Checks)
			if f.stream != nil || f.noDeadlines { // some checks wait for as long as they may
				o.HeartbeatTimeout, o.Grace = time.Second, time.Second
				t.Parallel()
			}
			report, err := conformance.Run(t.Context(), o)
			must(t, err)
			mu.Lock()
			defer mu.Unlock()
			for _, r := range report.Results {
				failed := r.Outcome == conformance.Fail
				found[r.Name] = found[r.Name] || failed
				if failed != f.names(r.Name) {
					t.Errorf("%s: %s %s %+v", r.Name, r.Outcome, r.Reason, r.Breaches)
				}
			}
			f.mustNameChecks(t)
		})
	}
}

// affectedChecks returns the checks of the services that the fault affects.
func (f fault) affectedChecks(checks []conformance.Check) []conformance.Check {
	services := map[string]bool{}
	for _, c := range checks {
		services[c.Service()] = services[c.Service()] || f.names(c.Name)
	}
	return slices.DeleteFunc(checks, func(c conformance.Check) bool { return !services[c.Service()] })
}

func (f fault) names(check string) bool {
	return slices.ContainsFunc(f.fails, func(p string) bool { return matches(p, check) })
}

// mustNameChecks fails the test if the fault names a check that does not exist.
func (f fault) mustNameChecks(t *testing.T) {
	t.Helper()
	for _, pattern := range f.fails {
		if _, err := conformance.Select(pattern); err != nil {
			t.Error(err)
		}
	}
}

func matches(pattern, name string) bool {
	return regexp.MustCompile("^" + strings.ReplaceAll(regexp.QuoteMeta(pattern), `\*`, ".*") + "$").MatchString(name)
}
