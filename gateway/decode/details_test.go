package decode

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestDetailsAreLimited(t *testing.T) {
	many := map[string]string{}
	for i := range 100 {
		many[fmt.Sprintf("field%03d", i)] = strings.Repeat("x", 1+i)
	}
	for name, details := range map[string]map[string]string{
		"many problems":     Details(many),
		"long texts":        Details(map[string]string{"a": strings.Repeat("ä", 4000), "b": strings.Repeat("x", 4000), "c": "is wrong"}),
		"costly characters": Details(nil, slices.Repeat([]string{strings.Repeat("\x01", 70)}, 5)...),
		"many names":        Details(map[string]string{"title": "is required"}, costlyNames(1000)...),
	} {
		size := 0
		for field, text := range details {
			if n := utf8.RuneCountInString(field); n > 64 || text == "" {
				t.Errorf("%s: %q of %d characters: %q", name, field, n, text)
			}
		}
		if encoded, err := json.Marshal(details); err == nil {
			size = len(encoded)
		}
		if len(details) > 20 || len(details) == 0 || size > 8<<10 {
			t.Errorf("%s: %d fields of %d bytes", name, len(details), size)
		}
	}
	if got := slices.Sorted(maps.Keys(Details(many))); got[0] != "field000" || got[19] != "field019" {
		t.Errorf("details have %q, want the first by name", got)
	}
	tooLong := map[string]string{"a": "is wrong", "b": strings.Repeat("x", 9000), "c": "is wrong"}
	if got := Details(tooLong); len(got) != 2 || got["b"] != "" {
		t.Errorf("details have %q; the text above the size limit must be missing", slices.Sorted(maps.Keys(got)))
	}
	if got := Details(map[string]string{"title": "is required"}, costlyNames(20)...); got["title"] == "" || len(got) < 15 {
		t.Errorf("%d details; known fields must come first", len(got))
	}
}

// costlyNames returns names whose characters take six bytes of JSON each.
func costlyNames(n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprint(i) + strings.Repeat("\x01", 70)
	}
	return names
}
