package conformance_test

import (
	"bytes"
	"encoding/json"
	"testing"

	"opsgate/cmd/internal/dev/conformance"
	"opsgate/internal/testkit"
)

// report has one check of each outcome.
func report() conformance.Report {
	return conformance.Report{
		Passed: 1, Failed: 1, Unproved: 1, Skipped: 1,
		NotChecked: []conformance.Unchecked{{What: "It is quick.", Why: "The network is slow."}},
		Results: []conformance.Result{
			{Name: "fleet/GetServer/deadline", Method: "fleet/GetServer", Sentence: "It ends.", Outcome: conformance.Pass, Seconds: 0.5},
			{Name: "fleet/GetServer/unknown-id", Method: "fleet/GetServer", Sentence: "It is not there.", Outcome: conformance.Fail,
				Breaches: []conformance.Breach{{Expected: "NOT_FOUND", Got: "INTERNAL <\"oops\">"}}, Seconds: 0.25},
			{Name: "audit/ListAuditEntries/walk", Method: "audit/ListAuditEntries", Sentence: "All.", Outcome: conformance.Skip, Reason: "no rows"},
			{Name: "audit/ListAuditEntries/order", Method: "audit/ListAuditEntries", Sentence: "Newest first.", Outcome: conformance.Unproved,
				Reason: "needs two rows"},
		},
	}
}

func TestTextEndsWithFailures(t *testing.T) {
	var text bytes.Buffer
	testkit.Must(t, report().WriteText(&text))
	const want = `fleet/GetServer
  pass  deadline                  It ends.
  FAIL  unknown-id                It is not there.
audit/ListAuditEntries
  skip  walk                      no rows
  not proved  order                     needs two rows

FAILED  fleet/GetServer/unknown-id
  contract: It is not there.
  expected: NOT_FOUND
  got:      INTERNAL <"oops">

NOT PROVED  audit/ListAuditEntries/order
  contract: Newest first.
  needs two rows

Not checked, because a client cannot observe it:
  It is quick.
    The network is slow.

4 checks: 1 passed, 1 failed, 1 not proved, 1 skipped
`
	if text.String() != want {
		t.Errorf("text:\n%s\nwant:\n%s", text.String(), want)
	}
}

func TestJSONContainsAllResults(t *testing.T) {
	var text bytes.Buffer
	testkit.Must(t, report().WriteJSON(&text))
	var back conformance.Report
	testkit.Must(t, json.Unmarshal(text.Bytes(), &back))
	if len(back.Results) != 4 || back.Unproved != 1 || len(back.NotChecked) != 1 || back.Results[1].Breaches[0] != report().Results[1].Breaches[0] || back.Failed != 1 {
		t.Errorf("read back as %+v", back)
	}
}

func TestJUnitHasASuiteForEachMethod(t *testing.T) {
	var text bytes.Buffer
	testkit.Must(t, report().WriteJUnit(&text))
	const want = `<?xml version="1.0" encoding="UTF-8"?>
<testsuites tests="4" failures="1" skipped="2">
  <testsuite name="fleet/GetServer" tests="2" failures="1" skipped="0" time="0.750">
    <testcase classname="fleet/GetServer" name="deadline" time="0.500"></testcase>
    <testcase classname="fleet/GetServer" name="unknown-id" time="0.250">
      <failure message="It is not there.">expected: NOT_FOUND&#xA;got:      INTERNAL &lt;&#34;oops&#34;&gt;&#xA;</failure>
    </testcase>
  </testsuite>
  <testsuite name="audit/ListAuditEntries" tests="2" failures="0" skipped="2" time="0.000">
    <testcase classname="audit/ListAuditEntries" name="walk" time="0.000">
      <skipped message="no rows"></skipped>
    </testcase>
    <testcase classname="audit/ListAuditEntries" name="order" time="0.000">
      <skipped message="needs two rows"></skipped>
    </testcase>
  </testsuite>
</testsuites>
`
	if text.String() != want {
		t.Errorf("the report is\n%s", text.String())
	}
}
