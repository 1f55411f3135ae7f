package conformance

import (
	"encoding/json"
	"encoding/xml"
	"fmt"
	"io"
	"strings"
)

// An Outcome is the outcome of a check.
type Outcome string

// Outcomes.
const (
	Pass Outcome = "pass"
	Fail Outcome = "fail"
	Skip Outcome = "skip"
	// Unproved is the outcome of a check for which the service or the fixtures have too little
	// data.
	Unproved Outcome = "not proved"
)

// A Result is the result of a check.
type Result struct {
	Name     string  `json:"name"`
	Method   string  `json:"method"`
	Sentence string  `json:"sentence"`
	Outcome  Outcome `json:"outcome"`
	// Breaches are set if the check failed.
	Breaches []Breach `json:"breaches,omitempty"`
	// Reason is set if the check was skipped, or names the data that would prove it.
	Reason  string  `json:"why,omitempty"`
	Seconds float64 `json:"seconds"`
}

// A Breach is one difference between the contract and a service.
type Breach struct {
	Expected string `json:"expected"`
	Got      string `json:"got"`
}

// A Report holds the results of all checks.
type Report struct {
	Passed   int      `json:"passed"`
	Failed   int      `json:"failed"`
	Unproved int      `json:"not_proved"`
	Skipped  int      `json:"skipped"`
	Results  []Result `json:"results"`
	// NotChecked are the sentences of the contract that no check covers.
	NotChecked []Unchecked `json:"not_checked"`
}

func (r *Report) add(result Result) {
	r.Results = append(r.Results, result)
	switch result.Outcome {
	case Pass:
		r.Passed++
	case Fail:
		r.Failed++
	case Skip:
		r.Skipped++
	case Unproved:
		r.Unproved++
	}
}

// String returns the numbers of checks by outcome.
func (r Report) String() string {
	return fmt.Sprintf("%d checks: %d passed, %d failed, %d not proved, %d skipped",
		len(r.Results), r.Passed, r.Failed, r.Unproved, r.Skipped)
}

// rule returns the last part of the check's name.
func (r Result) rule() string { return r.Name[len(r.Method)+1:] }

// breachText returns the breaches, with an indent before each line.
func (r Result) breachText(indent string) string {
	var text strings.Builder
	for _, b := range r.Breaches {
		fmt.Fprintf(&text, "%[1]sexpected: %[2]s\n%[1]sgot:      %[3]s\n", indent, b.Expected, b.Got)
	}
	return text.String()
}

// WriteText writes the results by method, and then the breaches, the missing evidence and what no
// check covers.
func (r Report) WriteText(w io.Writer) error {
	var text, failures, unproved, limits strings.Builder
	method := ""
	for _, result := range r.Results {
		if result.Method != method {
			method = result.Method
			fmt.Fprintln(&text, method)
		}
		label, shown := string(result.Outcome), result.Sentence
		switch result.Outcome {
		case Fail:
			label = "FAIL"
			fmt.Fprintf(&failures, "\nFAILED  %s\n  contract: %s\n%s", result.Name, result.Sentence, result.breachText("  "))
		case Skip:
			shown = result.Reason
		case Unproved:
			shown = result.Reason
			fmt.Fprintf(&unproved, "\nNOT PROVED  %s\n  contract: %s\n  %s\n", result.Name, result.Sentence, result.Reason)
		case Pass:
		}
		fmt.Fprintf(&text, "  %s  %-24s  %s\n", label, result.rule(), shown)
	}
	if len(r.NotChecked) > 0 {
		limits.WriteString("\nNot checked, because a client cannot observe it:\n")
	}
	for _, l := range r.NotChecked {
		fmt.Fprintf(&limits, "  %s\n    %s\n", l.What, l.Why)
	}
	_, err := fmt.Fprintf(w, "%s%s%s%s\n%s\n", &text, &failures, &unproved, &limits, r)
	return err
}

// WriteJSON writes the report as JSON.
func (r Report) WriteJSON(w io.Writer) error {
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	encoder.SetEscapeHTML(false)
	return encoder.Encode(r)
}

// Elements of the JUnit XML format that CI systems read.
type (
	junitCounts struct {
		Tests    int `xml:"tests,attr"`
		Failures int `xml:"failures,attr"`
		Skipped  int `xml:"skipped,attr"`
	}
	junitSuites struct {
		XMLName xml.Name `xml:"testsuites"`
		junitCounts
		Suites []junitSuite `xml:"testsuite"`
	}
	junitSuite struct {
		Name string `xml:"name,attr"`
		junitCounts
		Seconds junitSeconds `xml:"time,attr"`
		Cases   []junitCase  `xml:"testcase"`
	}
	junitCase struct {
		Class   string        `xml:"classname,attr"`
		Name    string        `xml:"name,attr"`
		Seconds junitSeconds  `xml:"time,attr"`
		Failure *junitMessage `xml:"failure"`
		Skipped *junitMessage `xml:"skipped"`
	}
	junitMessage struct {
		Message string `xml:"message,attr"`
		Text    string `xml:",chardata"`
	}
	junitSeconds float64
)

// MarshalText writes milliseconds.
func (s junitSeconds) MarshalText() ([]byte, error) { return fmt.Appendf(nil, "%.3f", float64(s)), nil }

// WriteJUnit writes the report as JUnit XML, with a suite for each method.
func (r Report) WriteJUnit(w io.Writer) error {
	all := junitSuites{junitCounts: junitCounts{Tests: len(r.Results), Failures: r.Failed,
		Skipped: r.Skipped + r.Unproved}}
	for _, result := range r.Results {
		if n := len(all.Suites); n == 0 || all.Suites[n-1].Name != result.Method {
			all.Suites = append(all.Suites, junitSuite{Name: result.Method})
		}
		all.Suites[len(all.Suites)-1].add(result)
	}
	text, err := xml.MarshalIndent(all, "", "  ")
	if err != nil {
		return fmt.Errorf("encode the JUnit XML: %w", err)
	}
	_, err = fmt.Fprintf(w, "%s%s\n", xml.Header, text)
	return err
}

func (s *junitSuite) add(r Result) {
	c := junitCase{Class: r.Method, Name: r.rule(), Seconds: junitSeconds(r.Seconds)}
	switch r.Outcome {
	case Fail:
		s.Failures++
		c.Failure = &junitMessage{Message: r.Sentence, Text: r.breachText("")}
	case Skip, Unproved:
		s.Skipped++
		c.Skipped = &junitMessage{Message: r.Reason}
	case Pass:
	}
	s.Tests++
	s.Seconds += c.Seconds
	s.Cases = append(s.Cases, c)
}
