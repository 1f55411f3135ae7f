package conformance_test

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"opsgate/cmd/internal/dev/conformance"
	"opsgate/internal/testkit"
)

// Each fault makes exactly its checks fail, and each check fails for at least one fault. Most of
// the time the checks wait, so the faults are shared among several backends.
func TestChecksFindEveryFault(t *testing.T) {
	var mu sync.Mutex
	found := map[string]bool{}
	t.Cleanup(func() { // after the parallel tests
		for _, check := range conformance.Checks() {
			if !found[check.Name] {
				t.Errorf("no fault makes %s fail: add one to faults_test.go", check.Name)
			}
		}
	})
	const backends = 4
	var next atomic.Int32 // each backend takes the next fault
	all := faults()
	for n := range backends {
		t.Run(fmt.Sprint("backend", n), func(t *testing.T) {
			t.Parallel()
			backend := startReference(t)
			for i := int(next.Add(1)); i <= len(all); i = int(next.Add(1)) {
				f := all[i-1]
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

// mustFail runs the checks against a backend with the fault, and returns the names of those that
// fail or are not proved.
func (f fault) mustFail(t *testing.T, backend reference) (found []string) {
	t.Helper()
	for _, r := range f.results(t, options(t, backend, startFaulty(t, backend, f))) {
		if r.Outcome == conformance.Fail || r.Outcome == conformance.Unproved {
			found = append(found, r.Name)
		}
		got, want := r.Outcome, f.outcome(r.Name)
		if got == conformance.Skip { // what is optional
			got = conformance.Pass
		}
		if got != want {
			t.Errorf("%s: %s instead of %s: %s %+v", r.Name, r.Outcome, want, r.Reason, r.Breaches)
		}
	}
	f.mustNameChecks(t)
	return found
}

// results runs the checks of the services that the fault affects. Only those that have to pass get
// the time that a busy machine may need: some of the others wait for as long as they may.
func (f fault) results(t *testing.T, o conformance.Options) []conformance.Result {
	t.Helper()
	failing, passing := o, o
	failing.HeartbeatTimeout, failing.Grace = time.Second, time.Second
	affected := slices.DeleteFunc(f.affectedChecks(o.Checks), func(c conformance.Check) bool { // they make 2,100 calls, and leave 1 MiB
		return slices.Contains([]string{"open-incidents", "room"}, c.Rule()) && f.outcome(c.Name) == conformance.Pass
	})
	passes := func(c conformance.Check) bool { return f.outcome(c.Name) == conformance.Pass }
	failing.Checks = slices.DeleteFunc(slices.Clone(affected), passes)
	passing.Checks = slices.DeleteFunc(affected, func(c conformance.Check) bool { return !passes(c) })
	failed, err := conformance.Run(t.Context(), failing)
	testkit.Must(t, err)
	passed, err := conformance.Run(t.Context(), passing)
	testkit.Must(t, err)
	return append(failed.Results, passed.Results...)
}

// affectedChecks returns the checks of the services that the fault affects.
func (f fault) affectedChecks(checks []conformance.Check) []conformance.Check {
	services := map[string]bool{}
	for _, c := range checks {
		services[c.Service()] = services[c.Service()] || f.outcome(c.Name) != conformance.Pass
	}
	return slices.DeleteFunc(checks, func(c conformance.Check) bool { return !services[c.Service()] })
}

// outcome returns the outcome that a check has to have. An exact name is stronger than a pattern of
// the other list.
func (f fault) outcome(check string) conformance.Outcome {
	named := func(p string) bool { return matches(p, check) }
	switch {
	case slices.ContainsFunc(f.unproved, named) && !slices.Contains(f.fails, check):
		return conformance.Unproved
	case slices.ContainsFunc(f.fails, named):
		return conformance.Fail
	}
	return conformance.Pass
}

// mustNameChecks fails the test if the fault names a check that does not exist.
func (f fault) mustNameChecks(t *testing.T) {
	t.Helper()
	for _, pattern := range slices.Concat(f.fails, f.unproved) {
		if _, err := conformance.Select(pattern); err != nil {
			t.Error(err)
		}
	}
}

func matches(pattern, name string) bool {
	return regexp.MustCompile("^" + strings.ReplaceAll(regexp.QuoteMeta(pattern), `\*`, ".*") + "$").MatchString(name)
}
