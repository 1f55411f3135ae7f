package gateway

import (
	"regexp"
	"strings"
	"testing"

	"opsgate/internal/uuid"
)

// Forms of valid input.
var (
	uuidForm = regexp.MustCompile(`^[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}$`)
	keyForm  = regexp.MustCompile(`^[\x21-\x7e]{1,255}$`)
)

func FuzzPathID(f *testing.F) {
	for _, id := range []string{someID, strings.ToUpper(someID), "{" + someID[2:] + "}", someID[:35], someID + "\n", strings.ReplaceAll(someID, "-", "")} {
		f.Add(id)
	}
	f.Fuzz(func(t *testing.T, s string) {
		id, ok := uuid.Canonical(s)
		if ok != uuidForm.MatchString(s) || ok && id != strings.ToLower(s) {
			t.Errorf("%q is read as %q, %v", s, id, ok)
		}
	})
}
