package command_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
)

// cursors serves a list of n items whose ids are numbers, and ignores the cursor of the requests in
// ignored.
func cursors(n int, ignored map[int]bool) http.HandlerFunc {
	requests := 0
	return func(w http.ResponseWriter, r *http.Request) {
		requests++
		limit, _ := strconv.Atoi(r.URL.Query().Get("limit"))
		from, _ := strconv.Atoi(r.URL.Query().Get("cursor"))
		if from > 0 && (ignored[requests] || ignored[0]) {
			from = 0
			w.Header().Set("Cursor-Status", "ignored")
		}
		writePage(w, from, min(from+limit, n), func(to int) string {
			if to < n {
				return fmt.Sprintf(`"nextCursor": "%d"`, to)
			}
			return `"nextCursor": null`
		})
	}
}

func writePage(w http.ResponseWriter, from, to int, rest func(to int) string) {
	var items []string
	for i := from; i < to; i++ {
		status := []string{"investigating", "resolved", "identified", "resolved"}[i%4]
		items = append(items, fmt.Sprintf(`{"id": "%d", "status": %q, "new": null}`, i, status))
	}
	_, _ = fmt.Fprintf(w, `{"items": [%s], %s}`, strings.Join(items, ","), rest(to))
}

// numbers fails the test if the output is not the array of n items in order.
func numbers(t *testing.T, text string, n int) {
	t.Helper()
	var items []struct{ ID string }
	if err := json.Unmarshal([]byte(text), &items); err != nil || items == nil || len(items) != n {
		t.Fatalf("%v: got %d items, want %d", err, len(items), n)
	}
	for i, item := range items {
		if item.ID != strconv.Itoa(i) {
			t.Fatalf("item %d is %s", i, item.ID)
		}
	}
}

func TestListsAreWalkedToTheirEnd(t *testing.T) {
	for _, c := range []struct {
		arguments      string
		total          int
		ignored        map[int]bool
		want, requests int
		more           bool
	}{
		{"--all", 0, nil, 0, 1, false},
		{"--all", 250, nil, 250, 3, false},
		{"", 250, nil, 50, 1, true},
		{"", 50, nil, 50, 1, false},
		{"--limit 120", 250, nil, 120, 2, true},
		{"--limit 250", 250, nil, 250, 3, false},
		{"--all", 250, map[int]bool{3: true}, 250, 5, false},
		{"--limit 150", 250, map[int]bool{2: true}, 150, 3, true},
	} {
		s := startStub(t, cursors(c.total, c.ignored))
		r := s.run(t, append([]string{"audit", "list", "-o", "json"}, strings.Fields(c.arguments)...)...)
		if r.code != 0 || len(s.seen()) != c.requests || strings.Contains(r.err, "--all prints more") != c.more {
			t.Errorf("%s of %d: %d requests, %+v", c.arguments, c.total, len(s.seen()), r)
		}
		numbers(t, r.out, c.want)
	}
	s := startStub(t, cursors(250, map[int]bool{0: true}))
	if r := s.run(t, "audit", "list", "--all"); r.code != 1 || r.out != "" || !strings.Contains(r.err, "incomplete_list") || len(s.seen()) > 10 {
		t.Errorf("cursors that are always ignored: %d requests, %+v", len(s.seen()), r)
	}
	stuck := startStub(t, answer(200, `{"items": [], "nextCursor": "a"}`))
	if r := stuck.run(t, "audit", "list", "--all"); r.code != 1 || len(stuck.seen()) > 3 {
		t.Errorf("the same cursor again: %d requests, %+v", len(stuck.seen()), r)
	}
}

// The API has no parameter for the status of incidents.
func TestIncidentsAreSelectedByStatus(t *testing.T) {
	for _, c := range []struct {
		arguments          string
		ids, requests      int
		first, second, end string
	}{
		{"--status open --limit 60", 60, 2, "0", "2", "118"},
		{"--status resolved --limit 3", 3, 1, "1", "3", "5"},
		{"--status identified --all", 75, 3, "2", "6", "298"},
		{"--status monitoring --all", 0, 3, "", "", ""},
		{"--limit 3", 3, 1, "0", "1", "2"},
	} {
		s := startStub(t, cursors(300, nil))
		ids := strings.Fields(s.must(t, append([]string{"incidents", "list", "-o", "id"}, strings.Fields(c.arguments)...)...))
		if len(ids) != c.ids || len(s.seen()) != c.requests || len(ids) > 0 && (ids[0] != c.first || ids[1] != c.second || ids[len(ids)-1] != c.end) {
			t.Errorf("%s: %d requests, %v", c.arguments, len(s.seen()), ids)
		}
		if query := s.seen()[0].URL.Query(); query.Has("status") {
			t.Errorf("%s: the API got %v", c.arguments, query)
		}
	}
	if r := startStub(t, cursors(300, nil)).run(t, "incidents", "list", "--status", "closed"); r.code != 2 || !strings.Contains(r.err, "investigating") {
		t.Errorf("an unknown status: %+v", r)
	}
}

// Each page has one item that was on the page before, because a command was added in between.
func TestNumberedPagesKeepEachItemOnce(t *testing.T) {
	serve := func(w http.ResponseWriter, r *http.Request) {
		page, _ := strconv.Atoi(r.URL.Query().Get("page"))
		size, _ := strconv.Atoi(r.URL.Query().Get("pageSize"))
		from := (page - 1) * (size - 1)
		writePage(w, from, min(from+size, 250), func(int) string { return `"total": 252` })
	}
	command := []string{"servers", "commands", "01234567-89ab-7def-8123-456789abcdef", "-o", "json"}
	numbers(t, startStub(t, serve).must(t, append(command, "--all")...), 250)
	s := startStub(t, serve)
	r := s.run(t, append(command, "--limit", "150")...)
	numbers(t, r.out, 150)
	if len(s.seen()) != 2 || !strings.Contains(r.err, "--all prints more") {
		t.Errorf("%d requests, %s", len(s.seen()), r.err)
	}
}
