package gateway

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestDetailsKeepKnownFieldsAndTheFirstUnknownOnes(t *testing.T) {
	h := start(t)
	body := `{"title":1,"status":"open",` + strings.TrimPrefix(distinctNames(128<<10-100), ",") + `,"message":"m"}`
	details := h.do(t, "full", "POST", "/v1/incidents", body).mustFail(t, 422, "validation_error")
	want := []string{"body", "status", "title"}
	for i := range 17 {
		want = append(want, strconv.FormatInt(int64(i), 36)) // the names of distinctNames
	}
	slices.Sort(want)
	if got := slices.Sorted(maps.Keys(details)); !slices.Equal(got, want) {
		t.Errorf("details name %q, want %q", got, want)
	}
}

func TestDetailsTruncateLongNames(t *testing.T) {
	h := start(t)
	const long = "äöü😀"
	body := `{"` + strings.Repeat(long, 16) + `more":1,"` + strings.Repeat(long, 16) + `":2}`
	details := h.do(t, "full", "POST", "/v1/incidents", body).mustFail(t, 422, "validation_error")
	if details[strings.Repeat(long, 16)] == "" || len(details) != 5 {
		t.Errorf("details %v, want the first 64 characters of the names, once", details)
	}
}

func TestDetailsAreLimited(t *testing.T) {
	many := map[string]string{}
	for i := range 100 {
		many[fmt.Sprintf("field%03d", i)] = strings.Repeat("x", 1+i)
	}
	for name, problem := range map[string]*Problem{
		"many problems":     invalid(many),
		"long texts":        invalid(map[string]string{"a": strings.Repeat("ä", 4000), "b": strings.Repeat("x", 4000), "c": "is wrong"}),
		"costly characters": invalid(nil, slices.Repeat([]string{strings.Repeat("\x01", 70)}, 5)...),
		"many names":        invalid(map[string]string{"title": "is required"}, costlyNames(1000)...),
	} {
		size := 0
		for field, text := range problem.Details {
			if n := utf8.RuneCountInString(field); n > 64 || text == "" {
				t.Errorf("%s: %q of %d characters: %q", name, field, n, text)
			}
		}
		if encoded, err := json.Marshal(problem.Details); err == nil {
			size = len(encoded)
		}
		if len(problem.Details) > 20 || len(problem.Details) == 0 || size > 8<<10 {
			t.Errorf("%s: %d fields of %d bytes", name, len(problem.Details), size)
		}
	}
	if got := slices.Sorted(maps.Keys(invalid(many).Details)); got[0] != "field000" || got[19] != "field019" {
		t.Errorf("details have %q, want the first by name", got)
	}
	tooLong := map[string]string{"a": "is wrong", "b": strings.Repeat("x", 9000), "c": "is wrong"}
	if got := invalid(tooLong).Details; len(got) != 2 || got["b"] != "" {
		t.Errorf("details have %q; the text above the size limit must be missing", slices.Sorted(maps.Keys(got)))
	}
	if got := invalid(map[string]string{"title": "is required"}, costlyNames(20)...).Details; got["title"] == "" || len(got) < 15 {
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
