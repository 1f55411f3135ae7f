package conformance_test

import (
	"testing"

	"opsgate/cmd/internal/conformance"
)

func TestTheReferenceBackendPassesEverything(t *testing.T) {
	report, err := conformance.Run(t.Context(), options(t, startReference(t)))
	must(t, err)
	for _, r := range report.Results {
		if r.Outcome != conformance.Pass {
			t.Errorf("%s: %s %+v%s", r.Name, r.Outcome, r.Breaches, r.Why)
		}
		if r.Seconds > 0.3 {
			t.Log(r.Name, r.Seconds)
		}
	}
	if len(report.Results) != len(conformance.Checks()) || report.Passed != len(report.Results) {
		t.Errorf("%v of %d", report, len(conformance.Checks()))
	}
}
