package gateway

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
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
