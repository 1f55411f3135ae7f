package conformance

import (
	"context"
	"encoding/base64"
	"fmt"
	"regexp"
	"slices"
	"strings"

	auditv1 "opsgate/proto/ops/audit/v1"
	incidentv1 "opsgate/proto/ops/incident/v1"
)

// A list is a method that is walked by cursors.
type list struct {
	method string
	page   func(ctx context.Context, s *subject, q pageQuery) (page, error)
}

type pageQuery struct {
	team, cursor string
	size         int
}

type page struct {
	rows    []row
	next    string
	ignored bool
}

const (
	listIncidents    = "incident/ListIncidents"
	listAuditEntries = "audit/ListAuditEntries"
)

func incidentList() list {
	return list{method: listIncidents, page: func(ctx context.Context, s *subject, q pageQuery) (page, error) {
		answer, err := s.incident.ListIncidents(ctx,
			&incidentv1.ListIncidentsRequest{TeamId: q.team, PageSize: int32(q.size), Cursor: q.cursor})
		return page{rows(answer.GetIncidents(), incidentRow), answer.GetNextCursor(), answer.GetCursorIgnored()}, err
	}}
}

func auditList() list {
	return list{method: listAuditEntries, page: func(ctx context.Context, s *subject, q pageQuery) (page, error) {
		answer, err := s.audit.ListAuditEntries(ctx,
			&auditv1.ListAuditEntriesRequest{TeamId: q.team, PageSize: int32(q.size), Cursor: q.cursor})
		return page{rows(answer.GetEntries(), entryRow), answer.GetNextCursor(), answer.GetCursorIgnored()}, err
	}}
}

func entryRow(m *auditv1.AuditEntry) row { return row{id: m.GetId(), at: timeOf(m.GetCreatedAt())} }

// listChecks are those of both lists that are walked by cursors.
func listChecks() []Check {
	return append(incidentList().checks(auditList()), auditList().checks(incidentList())...)
}

func (l list) checks(other list) []Check {
	return append([]Check{
		{
			Name: l.method + "/order", look: l.isOrdered,
			Sentence: "Rows come newest first (`created_at` and then `id`, both descending).",
		},
		{
			Name: l.method + "/page-size", Sentence: "INVALID_ARGUMENT naming `page_size` when out of bounds, which are 1 and 100.",
			look: func(ctx context.Context, s *subject) error {
				for _, size := range []int{0, -1, largePage + 1} {
					_, err := l.page(ctx, s, pageQuery{team: s.teams[0].ID, size: size})
					if err := names(err, fmt.Sprint("page size ", size), "page_size"); err != nil {
						return err
					}
				}
				return nil
			},
		},
		{
			Name: l.method + "/page-size-kept", look: l.keepsPageSize,
			Sentence: "A page has at most `page_size` rows.",
		},
		{
			Name: l.method + "/walk", look: l.walksAll,
			Sentence: "`next_cursor` is where the next page begins, and empty on the last page.",
		},
		{
			Name: l.method + "/walk-under-writes", Writes: true, look: l.walksUnderWrites,
			Sentence: "A cursor names a row: what is created during a walk never shifts its later pages.",
		},
	}, l.cursorChecks(other)...)
}

func (l list) cursorChecks(other list) []Check {
	ignored := "A cursor that is not recognised is not an error: the first page is returned and `cursor_ignored` is set. Here: "
	return []Check{
		{
			Name: l.method + "/cursor-format", look: l.formatsCursors,
			Sentence: "A cursor is at most 512 characters of the URL-safe base64 alphabet.",
		},
		{
			Name: l.method + "/cursor-recognised", look: l.recognisesCursors,
			Sentence: "`cursor_ignored` is not set on a first page, nor where the cursor is recognised.",
		},
		{
			Name: l.method + "/cursor-malformed", Sentence: ignored + "malformed ones.",
			look: func(ctx context.Context, s *subject) error {
				return l.ignores(ctx, s, "garbage", "%%%", strings.Repeat("A", 512), base64.RawURLEncoding.EncodeToString([]byte("i'1=1--")))
			},
		},
		{
			Name: l.method + "/cursor-of-another-method", Sentence: ignored + "one of another method.",
			look: func(ctx context.Context, s *subject) error {
				cursor, err := other.cursor(ctx, s, s.teams[0])
				if err != nil {
					return err
				}
				return l.ignores(ctx, s, cursor)
			},
		},
		{
			Name: l.method + "/cursor-of-another-team", Sentence: ignored + "one of another team.",
			look: func(ctx context.Context, s *subject) error {
				cursor, err := l.cursor(ctx, s, s.teams[1])
				if err != nil {
					return err
				}
				return l.ignores(ctx, s, cursor)
			},
		},
	}
}

func (l list) first(ctx context.Context, s *subject, size int) (page, error) {
	return l.page(ctx, s, pageQuery{team: s.teams[0].ID, size: size})
}

// cursor returns a cursor of the team.
func (l list) cursor(ctx context.Context, s *subject, team Team) (string, error) {
	p, err := l.page(ctx, s, pageQuery{team: team.ID, size: 1})
	if err != nil {
		return "", err
	}
	if p.next == "" {
		return "", skip("%s of team %s has no second page, and so no cursor", l.method, team.ID)
	}
	return p.next, nil
}

func (l list) isOrdered(ctx context.Context, s *subject) error {
	p, err := l.first(ctx, s, largePage)
	if err != nil {
		return err
	}
	return newestFirstThenByID(p.rows)
}

func (l list) keepsPageSize(ctx context.Context, s *subject) error {
	for _, size := range []int{1, 7, largePage} {
		p, err := l.first(ctx, s, size)
		if err != nil {
			return err
		}
		if len(p.rows) > size {
			return expected(fmt.Sprint("at most ", size), "%d", len(p.rows))
		}
	}
	return nil
}

var cursorAlphabet = regexp.MustCompile(`^[A-Za-z0-9_-]{1,512}=*$`)

func (l list) formatsCursors(ctx context.Context, s *subject) error {
	cursor, err := l.cursor(ctx, s, s.teams[0])
	if err != nil {
		return err
	}
	if !cursorAlphabet.MatchString(cursor) || len(cursor) > 512 {
		return expected("at most 512 characters of the URL-safe base64 alphabet", "%q", cursor)
	}
	return nil
}

func (l list) recognisesCursors(ctx context.Context, s *subject) error {
	first, err := l.first(ctx, s, 1)
	if err != nil {
		return err
	}
	if first.ignored {
		return expected("cursor_ignored not to be set without a cursor", "it is set")
	}
	cursor, err := l.cursor(ctx, s, s.teams[0])
	if err != nil {
		return err
	}
	second, err := l.page(ctx, s, pageQuery{team: s.teams[0].ID, size: 1, cursor: cursor})
	if err != nil {
		return err
	}
	if second.ignored {
		return expected("cursor_ignored not to be set with the cursor of the page before", "it is set")
	}
	return nil
}

// ignores returns a breach if one of the cursors is not ignored.
func (l list) ignores(ctx context.Context, s *subject, cursors ...string) error {
	const size = 5
	for _, cursor := range cursors {
		err := settled(ctx, func() ([]string, error) {
			p, err := l.first(ctx, s, size)
			return idsOf(p.rows), err
		}, func(first []string) error {
			p, err := l.page(ctx, s, pageQuery{team: s.teams[0].ID, size: size, cursor: cursor})
			switch {
			case err != nil:
				return expected(fmt.Sprintf("the first page for the cursor %.40q", cursor), "%s", ended(err))
			case !p.ignored:
				return expected(fmt.Sprintf("cursor_ignored for the cursor %.40q", cursor), "it is not set")
			case !slices.Equal(idsOf(p.rows), first):
				return expected(fmt.Sprintf("the first page for the cursor %.40q", cursor), "%s", difference(first, idsOf(p.rows)))
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// walk follows cursors through pages, and does something after each. It returns the rows of at most that many pages, and whether these
// are all.
func (l list) walk(ctx context.Context, s *subject, size, pages int, between func() error) (walked []row, whole bool, err error) {
	q := pageQuery{team: s.teams[0].ID, size: size}
	for range pages {
		p, err := l.page(ctx, s, q)
		if err != nil {
			return nil, false, err
		}
		if walked = append(walked, p.rows...); p.next == "" {
			return walked, true, nil
		}
		if q.cursor = p.next; between != nil {
			if err := between(); err != nil {
				return nil, false, err
			}
		}
	}
	return walked, false, nil
}

// walksAll compares small pages with a large one.
func (l list) walksAll(ctx context.Context, s *subject) error {
	return settled(ctx, func() ([]string, error) {
		p, err := l.first(ctx, s, largePage)
		return idsOf(p.rows), err
	}, func(all []string) error {
		if len(all) < 2 {
			return skip("team %s has fewer than two rows there", s.teams[0].ID)
		}
		size := (len(all) + 4) / 5
		rows, whole, err := l.walk(ctx, s, size, 6, nil)
		if err != nil {
			return err
		}
		walked := idsOf(rows)
		if !whole || len(all) == largePage { // there are more
			walked = walked[:min(len(walked), len(all))]
		}
		if !slices.Equal(walked, all) {
			return expected(fmt.Sprintf("pages of %d that hold what one of 100 does, in its order", size), "%s", difference(all, walked))
		}
		return nil
	})
}

// walksUnderWrites creates an incident, and so an audit entry, after each page. Others may write too: what was not there at first does not
// count, but may not come after what was.
func (l list) walksUnderWrites(ctx context.Context, s *subject) error {
	const size, pages = 2, 5
	create := func() error {
		_, err := s.create(ctx, s.newIncident(s.teams[0].ID, "created during a walk"))
		return err
	}
	for range size * pages {
		if err := create(); err != nil {
			return err
		}
	}
	before, err := l.first(ctx, s, size*pages)
	if err != nil {
		return err
	}
	rows, _, err := l.walk(ctx, s, size, pages, create)
	if err != nil {
		return err
	}
	want, walked := idsOf(before.rows), idsOf(rows)
	for i, id := range walked {
		if slices.Contains(walked[:i], id) {
			return expected("each row once", "%s twice in a walk with writes", id)
		}
	}
	if start := slices.Index(walked, want[0]); start > 0 { // others wrote before the walk began
		walked = walked[start:]
	}
	if n := min(len(walked), len(want)); len(walked) < size || !slices.Equal(walked[:n], want[:n]) {
		return expected("the rows that were there when the walk began, in their order", "%s", difference(want, walked))
	}
	return nil
}
