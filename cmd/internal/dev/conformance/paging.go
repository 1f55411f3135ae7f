package conformance

import (
	"encoding/base64"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"
	"google.golang.org/protobuf/reflect/protoreflect"

	"opsgate/proto/contract"
)

// hasCursor reports whether the method returns pages with cursors.
func hasCursor(m contract.Method) bool { return m.HasRequestField("cursor") }

// pagingRules returns the rules for methods that return pages with cursors.
func pagingRules() []rule {
	const ignored = "A cursor that is not recognised is not an error: the first page is returned and `cursor_ignored` " +
		"is set. Case: "
	rules := []rule{
		{name: "page-size-kept", check: pageSizeIsKept, sentence: "A page has at most `page_size` rows."},
		{name: "walk", check: walkReturnsAllRows,
			sentence: "`next_cursor` names the next page, and is empty on the last page."},
		{name: "walk-under-writes", check: walkIgnoresNewRows, writes: true,
			sentence: "A cursor names a row: rows that are created during a walk never shift its later pages."},
		{name: "walk-one-millisecond", check: walkReturnsRowsOfOneMillisecond, writes: true,
			sentence: "A cursor names a row, at the full precision of the store: a walk returns all rows of a millisecond."},
		{name: "cursor-format", check: cursorsAreBase64,
			sentence: "A cursor is at most 512 characters of the URL-safe base64 alphabet."},
		{name: "cursor-recognised", check: cursorsAreRecognised,
			sentence: "`cursor_ignored` is not set on a first page, nor if the cursor is recognised."},
		{name: "cursor-malformed", sentence: ignored + "malformed.",
			check: ignores(func(*probe) []string {
				return []string{"garbage", "%%%", strings.Repeat("A", maxCursor),
					base64.RawURLEncoding.EncodeToString([]byte("i'1=1--"))}
			})},
		{name: "cursor-of-another-method", sentence: ignored + "of another method.",
			check: ignores(func(p *probe) []string { return []string{p.of(nextMethod(p.method, hasCursor)).cursor()} })},
		{name: "cursor-of-another-team", sentence: ignored + "of another team.",
			check: ignores(func(p *probe) []string { return []string{p.ofOtherTeam().cursor()} })},
	}
	for i := range rules {
		rules[i].on = hasCursor
	}
	return rules
}

// nextMethod returns the name of another method of the kind.
func nextMethod(m contract.Method, kind func(contract.Method) bool) string {
	all := slices.DeleteFunc(contract.Methods(), func(m contract.Method) bool { return !kind(m) })
	at := slices.IndexFunc(all, func(each contract.Method) bool { return each.String() == m.String() })
	return all[(at+1)%len(all)].String()
}

// A page is one page of a list with cursors.
type page struct {
	ids     []string
	next    string
	ignored bool
}

func (p *probe) page(size int, cursor string) page {
	response := p.call(fields{"page_size": size, "cursor": cursor})
	m := response.ProtoReflect()
	return page{ids: messageIDs(response), next: text(m, "next_cursor"), ignored: get(m, "cursor_ignored").Bool()}
}

// cursor returns a cursor of the own team.
func (p *probe) cursor() string {
	next := p.page(1, "").next
	needs(next != "", "a second row in %s of team %s, and therefore a cursor", p.method, p.own.ID)
	return next
}

func pageSizeIsKept(p *probe) {
	_ = p.cursor() // there are two rows or more
	for _, size := range []int{1, 7, contract.MaxPageSize} {
		n := len(p.page(size, "").ids)
		require(n <= size, fmt.Sprint("at most ", size, " rows"), "%d rows", n)
	}
}

// maxCursor is the maximum length of a cursor.
const maxCursor = 512

var cursorAlphabet = regexp.MustCompile(`^[A-Za-z0-9_-]{1,512}=*$`)

func cursorsAreBase64(p *probe) {
	cursor := p.cursor()
	require(cursorAlphabet.MatchString(cursor) && len(cursor) <= maxCursor,
		"at most 512 characters of the URL-safe base64 alphabet", "%q", cursor)
}

func cursorsAreRecognised(p *probe) {
	require(!p.page(1, "").ignored, "cursor_ignored: false, without a cursor", "cursor_ignored: true")
	require(!p.page(1, p.cursor()).ignored, "cursor_ignored: false, with the cursor of the previous page",
		"cursor_ignored: true")
}

// ignores returns a check that the method ignores each of the cursors.
func ignores(cursors func(p *probe) []string) func(p *probe) {
	const size = 5
	return func(p *probe) {
		for _, cursor := range cursors(p) {
			what := fmt.Sprintf("for the cursor %.40q", cursor)
			retryOnChange(func() []string { return p.page(size, "").ids }, func(first []string) {
				needs(len(first) > 0, "a row in the list of team %s", p.own.ID)
				var got page
				err := try(func() { got = p.page(size, cursor) })
				require(err == nil, "the first page "+what, "%s", resultText(err))
				require(got.ignored, "cursor_ignored: true, "+what, "cursor_ignored: false")
				must(sameList("the first page "+what, first, got.ids))
			})
		}
	}
}

// walk follows cursors through at most the given number of pages, and calls between before it
// requests the next page. It returns the ids of the rows, and whether it reached the last page.
func (p *probe) walk(size, pages int, between func()) (walked []string, complete bool) {
	cursor := ""
	for range pages {
		page := p.page(size, cursor)
		if walked = append(walked, page.ids...); page.next == "" {
			return walked, true
		}
		cursor = page.next
		between()
	}
	return walked, false
}

// walkReturnsAllRows compares small pages with a large one.
func walkReturnsAllRows(p *probe) {
	retryOnChange(func() []string { return p.page(contract.MaxPageSize, "").ids }, func(all []string) {
		needs(len(all) >= 2, "two rows in the list of team %s", p.own.ID)
		size := (len(all) + 4) / 5
		walked, complete := p.walk(size, 6, func() {})
		if !complete || len(all) == contract.MaxPageSize { // there are more
			walked = walked[:min(len(walked), len(all))]
		}
		must(sameList(fmt.Sprintf("on pages of %d, the rows of one page of 100", size), all, walked))
	})
}

// walkIgnoresNewRows creates an incident, and so an audit entry, after each page. Other clients may
// write too, so the walk may begin with newer rows than those of the start.
func walkIgnoresNewRows(p *probe) {
	const size, pages = 2, 5
	for range size * pages {
		p.create(nil)
	}
	want := p.page(size*pages, "").ids
	require(len(want) >= size*pages, "10 rows on the first page", "%d", len(want))
	walked, _ := p.walk(size, pages, func() { p.create(nil) })
	for i, id := range walked {
		require(!slices.Contains(walked[:i], id), "each row once in a walk with writes", "%s twice", id)
	}
	if start := slices.Index(walked, want[0]); start > 0 { // other clients wrote before the walk began
		walked = walked[start:]
	}
	n := min(len(walked), len(want))
	require(n >= size, "a walk of several pages", "%d rows", n)
	must(sameList("the rows that existed when the walk began", want[:n], walked[:n]))
}

// walkReturnsRowsOfOneMillisecond ends a page between two rows with times in one millisecond, and
// requests the next page after others were created at once. If the service has no such rows, it
// creates some.
func walkReturnsRowsOfOneMillisecond(p *probe) {
	const rounds, calls, pages = 5, 20, 10
	for range rounds {
		cursor := ""
		for range pages {
			response := p.call(fields{"cursor": cursor})
			ids, at := messageIDs(response), secondOfMillisecond(rowsOf(p.method, response))
			if at > 0 {
				first := p.page(at, cursor)
				if cursor == "" && !slices.Equal(first.ids[:min(at, len(first.ids))], ids[:at]) { // another client wrote
					break
				}
				p.createAtOnce(calls)
				must(sameList("the row after a row with a time in the same millisecond", ids[at:at+1], p.page(1, first.next).ids))
				return
			}
			if cursor = text(response.ProtoReflect(), "next_cursor"); cursor == "" {
				break
			}
		}
		p.createAtOnce(calls)
	}
	must(lacks("two rows with times in one millisecond, which %d calls at once do not create", calls))
}

// secondOfMillisecond returns the position of the second row with a time in the same millisecond,
// after the first two rows, or 0.
func secondOfMillisecond(rows []protoreflect.Message) int {
	millisecond := func(row protoreflect.Message) int64 {
		return timestamp(row, row.Descriptor().Fields().ByName("created_at")).AsTime().UnixMilli()
	}
	for i := 2; i < len(rows); i++ {
		if millisecond(rows[i]) == millisecond(rows[i-1]) {
			return i
		}
	}
	return 0
}

// createAtOnce creates incidents by concurrent calls.
func (p *probe) createAtOnce(calls int) {
	var group errgroup.Group
	for range calls {
		group.Go(func() error { return try(func() { p.create(nil) }) })
	}
	must(group.Wait())
}
