package rehearsal

import "net/http"

// pages checks that each list with several pages was read to its end. Which token reads it makes no difference.
func pages(entries []Entry) (cases int, findings []Finding) {
	seen := make(map[string]bool)
	for i := range entries {
		e := &entries[i]
		if !e.More || seen[e.list()] {
			continue
		}
		seen[e.list()] = true
		cases++
		if !reachesEnd(entries, e) {
			findings = append(findings, find(e, "the list has more pages, and no request for its last page followed"))
		}
	}
	return cases, findings
}

// restarts checks that the client reads a list to its end after an ignored cursor.
func restarts(entries []Entry) (cases int, findings []Finding) {
	for i := range entries {
		e := &entries[i]
		if e.Fault != IgnoredCursor || !e.More {
			continue
		}
		cases++
		if !reachesEnd(entries[i+1:], e) {
			findings = append(findings, find(e, "the first page with cursor-status: ignored, and no request for the last page followed"))
		}
	}
	return cases, findings
}

// reachesEnd reports whether an answer has the last page of the list of e.
func reachesEnd(entries []Entry, e *Entry) bool {
	for i := range entries {
		if f := &entries[i]; f.Status == http.StatusOK && f.Method == http.MethodGet && f.list() == e.list() && !f.More {
			return true
		}
	}
	return false
}
