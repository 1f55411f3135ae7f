package conformance

import (
	"encoding/json"
	"encoding/xml"
	"fmt"
	"io"
	"strings"
)

// WriteText writes the results by method, and then the breaches.
func (r Report) WriteText(w io.Writer) error {
	var text strings.Builder
	method := ""
	for _, result := range r.Results {
		if result.Method != method {
			method = result.Method
			fmt.Fprintf(&text, "%s\n", method)
		}
		shown := result.Sentence
		if result.Outcome == Skip {
			shown = result.Reason
		}
		fmt.Fprintf(&text, "  %s  %-24s  %s\n", outcomeLabel(result.Outcome), result.Name[len(method)+1:], shown)
	}
	for _, result := range r.Results {
		if result.Outcome == Fail {
			fmt.Fprintf(&text, "\nFAILED  %s\n  contract: %s\n", result.Name, result.Sentence)
			for _, b := range result.Breaches {
				fmt.Fprintf(&text, "  expected: %s\n  got:      %s\n", b.Expected, b.Got)
			}
		}
	}
	fmt.Fprintf(&text, "\n%s\n", r)
	_, err := io.WriteString(w, text.String())
	return err
}

// String returns the numbers of checks by outcome.
func (r Report) String() string {
	return fmt.Sprintf("%d checks: %d passed, %d failed, %d skipped", len(r.Results), r.Passed, r.Failed, r.Skipped)
}

// outcomeLabel returns four characters for each outcome.
func outcomeLabel(o Outcome) string {
	if o == Fail {
		return "FAIL"
	}
	return string(o)
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
	junitSuites struct {
		XMLName  xml.Name     `xml:"testsuites"`
		Tests    int          `xml:"tests,attr"`
		Failures int          `xml:"failures,attr"`
		Skipped  int          `xml:"skipped,attr"`
		Suites   []junitSuite `xml:"testsuite"`
	}
	junitSuite struct {
		Name     string      `xml:"name,attr"`
		Tests    int         `xml:"tests,attr"`
		Failures int         `xml:"failures,attr"`
		Skipped  int         `xml:"skipped,attr"`
		Seconds  string      `xml:"time,attr"`
		Cases    []junitCase `xml:"testcase"`

		seconds float64
	}
	junitCase struct {
		Class   string        `xml:"classname,attr"`
		Name    string        `xml:"name,attr"`
		Seconds string        `xml:"time,attr"`
		Failure *junitMessage `xml:"failure"`
		Skipped *junitMessage `xml:"skipped"`
	}
	junitMessage struct {
		Message string `xml:"message,attr"`
		Text    string `xml:",chardata"`
	}
)

// WriteJUnit writes the report as JUnit XML, with a suite for each method.
func (r Report) WriteJUnit(w io.Writer) error {
	all := junitSuites{Tests: len(r.Results), Failures: r.Failed, Skipped: r.Skipped}
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
	c := junitCase{Class: r.Method, Name: r.Name[len(r.Method)+1:], Seconds: seconds(r.Seconds)}
	switch r.Outcome {
	case Fail:
		s.Failures++
		c.Failure = &junitMessage{Message: r.Sentence}
		for _, b := range r.Breaches {
			c.Failure.Text += "expected: " + b.Expected + "\ngot:      " + b.Got + "\n"
		}
	case Skip:
		s.Skipped++
		c.Skipped = &junitMessage{Message: r.Reason}
	case Pass:
	}
	s.Tests++
	s.seconds += r.Seconds
	s.Seconds = seconds(s.seconds)
	s.Cases = append(s.Cases, c)
}

func seconds(s float64) string { return fmt.Sprintf("%.3f", s) }
