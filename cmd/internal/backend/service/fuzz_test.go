package service

import (
	"strings"
	"testing"

	"opsgate/internal/testkit"
)

// Parsers of opaque texts accept only the text that the encoder returns for the result.

func FuzzCursor(f *testing.F) {
	own, err := incidentCursor.encode("0190a5c8-1234-7000-8000-0123456789ab")
	testkit.Must(f, err)
	for _, text := range []string{"", own, own + "=", own[:len(own)-1] + "_", own + "A", strings.Repeat("A", 600), "aQ\n"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		id, ok := incidentCursor.decode(text)
		if !ok {
			return
		}
		if made, err := incidentCursor.encode(id); err != nil || made != text {
			t.Errorf("%q names %s, whose cursor is %q (%v)", text, id, made, err)
		}
		if _, ok := auditCursor.decode(text); ok {
			t.Errorf("%q is a cursor of two lists", text)
		}
	})
}

func FuzzPosition(f *testing.F) {
	for _, text := range []string{"", "a.1", "a.0", ".0", "a.-1", "a.+1", "a.01", "a.1.2", "a.9223372036854775808"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if p, ok := parsePosition(text); ok && p.String() != text {
			t.Errorf("%q is read as %v", text, p)
		}
	})
}
