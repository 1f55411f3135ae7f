package rehearsal

import (
	"fmt"
	"io"
	"strings"
)

// Print writes the score as text: one line for each item, which begins with its result and name, and findings indented below it.
func (s Score) Print(w io.Writer) error {
	text := new(strings.Builder)
	fmt.Fprintf(text, "\nRehearsal with seed %d: %d requests, %d of them disturbed.\n\n", s.Seed, s.Requests, s.Disturbed)
	for _, item := range s.Items {
		item.print(text)
	}
	fmt.Fprintf(text, "\nVerdict: %s (%d passed, %d failed, %d not exercised)\n",
		s.Verdict, s.Count(Passed), s.Count(Failed), s.Count(NotExercised))
	_, err := io.WriteString(w, text.String())
	return err
}

func (i *Item) print(text *strings.Builder) {
	fmt.Fprintf(text, "%-13s  %-10s  %s\n", i.Result, i.Name, i.summary())
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
	return i.Expected
}

func cases(n int) string {
	if n == 1 {
		return "1 case"
	}
	return fmt.Sprintf("%d cases", n)
}
