package conformance_test

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"strings"
	"testing"

	"opsgate/backendclient/testkit"
	"opsgate/cmd/internal/conformance"
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
	var back struct {
		Failures int `xml:"failures,attr"`
		Skipped  int `xml:"skipped,attr"`
		Suites   []struct {
			Name  string `xml:"name,attr"`
			Tests int    `xml:"tests,attr"`
			Time  string `xml:"time,attr"`
			Cases []struct {
				Name    string  `xml:"name,attr"`
				Failure *string `xml:"failure"`
				Skipped *struct {
					Message string `xml:"message,attr"`
				} `xml:"skipped"`
			} `xml:"testcase"`
		} `xml:"testsuite"`
	}
	testkit.Must(t, xml.Unmarshal(text.Bytes(), &back))
	if back.Failures != 1 || back.Skipped != 2 || len(back.Suites) != 2 || back.Suites[0].Tests != 2 || back.Suites[0].Time != "0.750" {
		t.Fatalf("read back as %+v", back)
	}
	passed, failed := back.Suites[0].Cases[0], back.Suites[0].Cases[1]
	skipped, unproved := back.Suites[1].Cases[0], back.Suites[1].Cases[1]
	if passed.Failure != nil || passed.Skipped != nil || failed.Name != "unknown-id" || failed.Failure == nil ||
		!strings.Contains(*failed.Failure, `INTERNAL <"oops">`) || skipped.Skipped == nil || skipped.Skipped.Message != "no rows" ||
		unproved.Skipped == nil || unproved.Skipped.Message != "needs two rows" {
		t.Errorf("read back as %+v", back)
	}
}
