package gateway

import (
	"slices"
	"strings"
	"unicode/utf8"

	"opsgate/gateway/jsonw"
)

// An enumValue is a value of an enum and its public name.
type enumValue[T any] struct {
	name  string
	value T
}

// oneOf lists the names of values: a, b or c.
func oneOf[T any](values []enumValue[T]) string {
	names := make([]string, len(values))
	for i, v := range values {
		names[i] = v.name
	}
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " or " + names[last]
}

// writeEnum writes the name of a value. A value without a name violates the contract with the service, and fails the view.
func writeEnum[T comparable](w *jsonw.Writer, name string, values []enumValue[T], value T) {
	for _, v := range values {
		if v.value == value {
			w.String(name, v.name)
			return
		}
	}
	w.Fail(name, "value is not in the enum")
}

// validText returns whether s is UTF-8 without NUL, which some stores cannot hold.
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
