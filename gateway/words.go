package gateway

import (
	"slices"
	"strings"
	"unicode/utf8"

	"opsgate/gateway/jsonw"
)

// A word is the public name of a value of a closed set.
type word[T any] struct {
	name  string
	value T
}

// oneOf lists a closed set for a person: a, b or c.
func oneOf[T any](words []word[T]) string {
	names := make([]string, len(words))
	for i, w := range words {
		names[i] = w.name
	}
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " or " + names[last]
}

// writeEnum writes a value of a closed set. One that is not in the set is a service's breach of contract, and fails the view.
func writeEnum[T comparable](w *jsonw.Writer, name string, words []word[T], value T) {
	for _, known := range words {
		if known.value == value {
			w.String(name, known.name)
			return
		}
	}
	w.Fail(name, "value is not in the contract's set")
}

// validText says whether s is UTF-8 without NUL, which no text of the API may hold and some stores cannot.
func validText(s string) bool {
	return utf8.ValidString(s) && strings.IndexByte(s, 0) < 0
}

func sortedKeys(m map[string]string) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
