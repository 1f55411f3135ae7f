package command

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"net/http"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"opsgate/cmd/internal/ctl/apiclient"
	"opsgate/internal/commandline"
)

// maxPage is the largest page that the API returns.
const maxPage = 100

// maxRestarts bounds how often a walk begins again because the API ignored its cursor.
const maxRestarts = 3

// window selects what of a long list is printed.
type window struct {
	limit  int
	all    bool
	status string // of incidents, or statusOpen; "" for any
}

// statusOpen selects the incidents that are not resolved.
const statusOpen = "open"

func (w *window) addFlags(command *cobra.Command) {
	command.Flags().IntVar(&w.limit, "limit", 50, "print the first `N`, from as many pages as that takes")
	command.Flags().BoolVar(&w.all, "all", false, "print all")
}

// addStatusFlag adds the flag that selects incidents, which the API cannot do.
func (w *window) addStatusFlag(command *cobra.Command) {
	all := append([]string{statusOpen}, statuses()...)
	commandline.Enum(command.Flags(), &w.status, "status", "",
		"print only incidents with this status, open for all but resolved: "+strings.Join(all, ", "), all...)
}

// selects reports whether an item is printed.
func (w window) selects(item json.RawMessage) bool {
	var incident struct{ Status string }
	switch _ = json.Unmarshal(item, &incident); w.status { // without a status it matches none
	case "":
		return true
	case statusOpen:
		return incident.Status != statusResolved
	}
	return incident.Status == w.status
}

// pageSize returns how many items to request after some were found.
func (w window) pageSize(found int) int {
	if w.status != "" {
		return maxPage
	}
	return min(w.size()-found, maxPage)
}

// size returns the number of items to print.
func (w window) size() int {
	if w.all {
		return math.MaxInt
	}
	return w.limit
}

// walk calls an operation that reads, and returns its answer. If that is a page of a list, walk
// requests more, and returns the items as an array.
func (s *session) walk(ctx context.Context, o apiclient.Operation, in input, w window) (json.RawMessage, error) {
	send := func(page input) (*http.Response, error) {
		maps.Copy(page, in)
		return s.call(ctx, o, page)
	}
	p := s.transport.program
	switch {
	case isPaged(o) && w.size() < 1:
		return nil, commandline.UsageError{Err: errors.New("--limit must be at least 1")}
	case slices.Contains(o.Query, "cursor"):
		return p.walkCursors(w, send)
	case slices.Contains(o.Query, "page"):
		return p.walkNumbers(w, send)
	}
	return p.body(send(input{})) //nolint:bodyclose // body closes it
}

// walkCursors returns the items of a list with cursors, as an array. send requests a page.
//
// If the API ignores a cursor, it returns the first page: the walk then begins again with that
// page, so that the list has no item twice.
func (p *program) walkCursors(w window, send func(input) (*http.Response, error)) (json.RawMessage, error) {
	items, cursor := []json.RawMessage{}, ""
	used := map[string]bool{}
	for restarts := 0; ; {
		in := input{"limit": w.pageSize(len(items))}
		if cursor != "" {
			in["cursor"] = cursor
		}
		response, err := send(in) //nolint:bodyclose // body closes it
		text, err := p.body(response, err)
		if err != nil {
			return nil, err
		}
		var page struct {
			Items      []json.RawMessage
			NextCursor *string
		}
		if err := json.Unmarshal(text, &page); err != nil {
			return nil, p.unexpected("the answer is not a page of a list: " + err.Error())
		}
		if cursor != "" && isCursorIgnored(response) {
			restarts++
			items, used = nil, map[string]bool{}
		}
		items = append(items, slices.DeleteFunc(page.Items, func(item json.RawMessage) bool { return !w.selects(item) })...)
		switch {
		case page.NextCursor == nil:
			return p.array(w, items, false)
		case len(items) >= w.size():
			return p.array(w, items, true)
		case restarts > maxRestarts || used[*page.NextCursor]:
			return nil, &problem{Code: codeIncomplete, Text: "the API ignores cursors, so the list cannot be completed",
				asJSON: p.Output == asJSON}
		}
		cursor = *page.NextCursor
		used[cursor] = true
	}
}

// isCursorIgnored reports whether an answer is the first page although the request had a cursor.
func isCursorIgnored(response *http.Response) bool {
	return response.Header.Get("Cursor-Status") == "ignored"
}

// walkNumbers returns the items of a list with numbered pages, as an array. send requests a page.
// Items that were added during the walk move others to later pages, so that an item may come twice:
// only the first is kept.
func (p *program) walkNumbers(w window, send func(input) (*http.Response, error)) (json.RawMessage, error) {
	items, seen := []json.RawMessage{}, map[string]bool{}
	size := min(w.size(), maxPage)
	for number := 1; ; number++ {
		text, err := p.body(send(input{"page": number, "pageSize": size})) //nolint:bodyclose // body closes it
		if err != nil {
			return nil, err
		}
		var page struct {
			Items []json.RawMessage
			Total int
		}
		if err := json.Unmarshal(text, &page); err != nil {
			return nil, p.unexpected("the answer is not a page of a list: " + err.Error())
		}
		for _, item := range page.Items {
			var identified struct{ ID string }
			if json.Unmarshal(item, &identified) != nil || !seen[identified.ID] {
				items, seen[identified.ID] = append(items, item), true
			}
		}
		if len(page.Items) < size || number*size >= page.Total || len(items) >= w.size() {
			return p.array(w, items, page.Total > len(items) && len(items) >= w.size())
		}
	}
}

// array returns the items as JSON, and notes if there are more.
func (p *program) array(w window, items []json.RawMessage, more bool) (json.RawMessage, error) {
	if len(items) > w.size() {
		items, more = items[:w.size()], true
	}
	if more {
		p.note(note{Text: fmt.Sprintf("these are the first %d; --limit N or --all prints more", len(items))})
	}
	return json.Marshal(append([]json.RawMessage{}, items...)) // never null
}
