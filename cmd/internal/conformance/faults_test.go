package conformance_test

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"opsgate/backendclient/testkit"
	"opsgate/cmd/internal/conformance"
)

// Each fault makes exactly its checks fail, and each check fails for at least one fault. Most of the time the checks wait, so the faults are
// shared among several backends.
func TestChecksFindEveryFault(t *testing.T) {
	var mu sync.Mutex
	found := map[string]bool{}
	t.Cleanup(func() { // after the parallel tests
		for _, check := range conformance.Checks() {
			if !found[check.Name] {
				t.Errorf("no fault makes %s fail", check.Name)
			}
		}
	})
	const backends = 4
	for n := range backends {
		t.Run(fmt.Sprint("backend", n), func(t *testing.T) {
			t.Parallel()
			backend := startReference(t)
			for i, f := range slices.Concat(generalFaults(), readFaults(), listFaults(), writeFaults(), keyFaults(), identityFaults()) {
				if i%backends != n {
					continue
				}
				t.Run(f.name, func(t *testing.T) {
					for _, name := range f.mustFail(t, backend) {
						mu.Lock()
						found[name] = true
						mu.Unlock()
					}
				})
			}
		})
	}
}

// mustFail runs the checks against a backend with the fault, and returns the names of those that fail.
func (f fault) mustFail(t *testing.T, backend string) (failed []string) {
	t.Helper()
	o := options(t, startFaulty(t, backend, f))
	o.Checks = f.affectedChecks(o.Checks)
	if f.stream != nil || f.noDeadlines { // some checks wait for as long as they may
		o.HeartbeatTimeout, o.Grace = time.Second, time.Second
	}
	report, err := conformance.Run(t.Context(), o)
	testkit.Must(t, err)
	for _, r := range report.Results {
		if r.Outcome == conformance.Fail {
			failed = append(failed, r.Name)
		}
		if (r.Outcome == conformance.Fail) != f.names(r.Name) {
			t.Errorf("%s: %s %s %+v", r.Name, r.Outcome, r.Reason, r.Breaches)
		}
	}
	f.mustNameChecks(t)
	return failed
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
