package rehearsal

import (
	"fmt"
	"net/http"
	"slices"
)

// pages checks that each list with several pages was read to its end. Which token reads it makes no difference.
func pages(r *run) (o outcome) {
	seen := make(map[string]bool)
	for _, e := range r.tries {
		if !e.More || e.isLate || seen[e.list()] {
			continue
		}
		seen[e.list()] = true
		o.cases++
		if !reachesEnd(r.tries, e) {
			o.fail(e, "the list has more pages, and no request for its last page followed")
		}
	}
	return o
}

// restarts checks that the client reads a list to its end after an ignored cursor, and that it does not count the items before twice. The
// requests do not show the latter, so there is no case without a count that the client reports.
func restarts(r *run) (o outcome) {
	for i, e := range r.tries {
		if e.Fault != IgnoredCursor || !e.More || e.isLate {
			continue
		}
		if !reachesEnd(r.tries[i+1:], e) {
			o.cases++
			o.fail(e, "the first page with cursor-status: ignored, and no request for the last page followed")
			continue
		}
		walks := completeWalks(r.tries, e.Path)
		for _, c := range r.counts {
			if c.Path == e.Path {
				o.cases++
			}
			if c.Path == e.Path && !slices.Contains(walks, c.Items) {
				o.fail(e, fmt.Sprintf("the first page with cursor-status: ignored; the client counted %d items of %d", c.Items, slices.Max(walks)))
			}
		}
	}
	return o
}

// reachesEnd reports whether an answer has the last page of the list of e.
func reachesEnd(tries []*try, e *try) bool {
	return nil != first(tries, func(f *try) bool {
		return f.Status == http.StatusOK && f.Method == http.MethodGet && f.list() == e.list() && !f.More
	})
}

// completeWalks returns how many items each walk of a list returned that began with a first page and reached the last; 0 for none.
func completeWalks(tries []*try, path string) []int {
	walks, before := []int{0}, make(map[string]int) // items before a page, by its cursor
	for _, e := range tries {
		items, known := before[e.list()+" "+e.Cursor]
		if e.First {
			items = 0
		}
		switch {
		case e.Status != http.StatusOK || e.Path != path || !known && !e.First:
		case e.More:
			before[e.list()+" "+e.NextCursor] = items + e.Items
		default:
			walks = append(walks, items+e.Items)
		}
	}
	return walks
}
