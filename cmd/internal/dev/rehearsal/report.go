package rehearsal

import (
	"encoding/xml"
	"fmt"
	"io"
	"strings"
)

// Print writes the score as text: one line for each item, which begins with its result and name, and findings indented below it.
func (s Score) Print(w io.Writer) error {
	text := new(strings.Builder)
	fmt.Fprintf(text, "\nRehearsal with seed %d: %d requests, %d of them disturbed.\n", s.Seed, s.Requests, s.Disturbed)
	if s.Requests > maxEntries {
		fmt.Fprintf(text, "Only the first %d are judged.\n", maxEntries)
	}
	text.WriteString("\n")
	for _, item := range s.Items {
		item.print(text)
	}
	fmt.Fprintf(text, "\n%s\n", s.Summary())
	_, err := io.WriteString(w, text.String())
	return err
}

// Summary returns the score as one line.
func (s Score) Summary() string {
	return fmt.Sprintf("Verdict: %s (%d passed, %d failed %v, %d not judged %v)",
		s.Verdict, s.Count(Passed), s.Count(Failed), s.names(Failed), s.Count(NotJudged), s.names(NotJudged))
}

// JUnit writes the score as a JUnit report, in which an item is a test.
func (s Score) JUnit(w io.Writer) error {
	text := new(strings.Builder)
	fmt.Fprintf(text, `<testsuite name="rehearsal" tests="%d" failures="%d" skipped="%d">`, len(s.Items), s.Count(Failed), s.Count(NotJudged))
	for _, item := range s.Items {
		fmt.Fprintf(text, "\n"+`<testcase classname="rehearsal" name="%s">`, item.Name)
		if element := map[Result]string{Failed: "failure", NotJudged: "skipped"}[item.Result]; element != "" {
			details, escaped := new(strings.Builder), new(strings.Builder)
			item.print(details)
			_ = xml.EscapeText(escaped, []byte(details.String())) // a builder never fails
			fmt.Fprintf(text, "<%s>%s</%s>", element, escaped, element)
		}
		text.WriteString("</testcase>")
	}
	_, err := io.WriteString(w, text.String()+"\n</testsuite>\n")
	return err
}

func (i *Item) print(text *strings.Builder) {
	fmt.Fprintf(text, "%-10s  %-10s  %s\n", i.Result, i.Name, i.summary())
	for _, f := range i.Findings {
		fmt.Fprintf(text, "    %s  %s %s  token %s, request %s: %s\n",
			f.At.Format("15:04:05.000Z"), f.Method, f.Path, f.Token, f.RequestID, f.Text)
	}
	if more := i.Failures - len(i.Findings); more > 0 {
		fmt.Fprintf(text, "    … and %d more\n", more)
	}
	if i.Result == Failed {
		fmt.Fprintf(text, "    Expected: %s.\n    Advice: %s\n", i.Expected, i.Advice)
	}
}

func (i *Item) summary() string {
	switch i.Result {
	case Passed:
		return cases(i.Cases)
	case Failed:
		return fmt.Sprintf("%d of %s", i.Failures, cases(i.Cases))
	}
	return "missing: " + i.Missing
}

func cases(n int) string {
	if n == 1 {
		return "1 case"
	}
	return fmt.Sprintf("%d cases", n)
}
