package command

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
)

// maxPage is the largest page that the API returns.
const maxPage = 100

// maxRestarts bounds how often a walk begins again because the API ignored its cursor.
const maxRestarts = 3

// window selects how much of a long list is printed.
type window struct {
	Limit int  `default:"50" placeholder:"N" help:"Print the first N (${default}), from as many pages as that takes."`
	All   bool `help:"Print all."`
}

// Validate is called by the parser.
func (w window) Validate() error {
	if w.Limit < 1 {
		return errors.New("--limit must be at least 1")
	}
	return nil
}

// size returns the number of items to print.
func (w window) size() int {
	if w.All {
		return math.MaxInt
	}
	return w.Limit
}

// walkCursors returns the items of a list with cursors, as an array. send requests a page.
//
// If the API ignores a cursor, it returns the first page: the walk then begins again with that page, so that the list has no item twice.
func (p *program) walkCursors(w window, send func(limit int32, cursor *string) (*http.Response, error)) (json.RawMessage, error) {
	items, cursor := []json.RawMessage{}, (*string)(nil)
	used := map[string]bool{}
	for restarts := 0; ; {
		response, err := send(int32(min(w.size()-len(items), maxPage)), cursor) //nolint:bodyclose // body closes it
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
		if cursor != nil && isCursorIgnored(response) {
			restarts++
			items, used = nil, map[string]bool{}
		}
		items = append(items, page.Items...)
		switch {
		case page.NextCursor == nil:
			return p.array(w, items, false)
		case len(items) >= w.size():
			return p.array(w, items, true)
		case restarts > maxRestarts || used[*page.NextCursor]:
			return nil, &problem{Code: codeIncomplete, Text: "the API ignores cursors, so the list cannot be completed", asJSON: p.Output == asJSON}
		}
		cursor = page.NextCursor
		used[*cursor] = true
	}
}

// isCursorIgnored reports whether an answer is the first page although the request had a cursor.
func isCursorIgnored(response *http.Response) bool {
	return response.Header.Get("Cursor-Status") == "ignored"
}

// walkNumbers returns the items of a list with numbered pages, as an array. send requests a page. Items that were added during the walk
// move others to later pages, so that an item may come twice: only the first is kept.
func (p *program) walkNumbers(w window, send func(page, size int32) (*http.Response, error)) (json.RawMessage, error) {
	items, seen := []json.RawMessage{}, map[string]bool{}
	size := min(w.size(), maxPage)
	for number := int32(1); ; number++ {
		text, err := p.body(send(number, int32(size))) //nolint:bodyclose // body closes it
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
		if len(page.Items) < size || int(number)*size >= page.Total || len(items) >= w.size() {
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
