package conformance

import (
	"context"
	"encoding/base64"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/timestamppb"

	"opsgate/proto/contract"
)

// A list is a method that returns pages with cursors.
type list struct{ contract.Method }

type pageQuery struct {
	team   Team
	cursor string
	size   int
}

type page struct {
	rows    []row
	next    string
	ignored bool
}

// lists returns all methods with cursors.
func lists() []list {
	var all []list
	for _, m := range contract.Methods() {
		if m.HasRequestField("cursor") {
			all = append(all, list{m})
		}
	}
	return all
}

// page returns one page.
func (l list) page(ctx context.Context, s *subject, q pageQuery) (page, error) {
	request := l.ReadRequest(contract.Target{Team: q.team.ID, Resource: q.team.Resources[Kind(l.Resource())]})
	setField(request, "page_size", protoreflect.ValueOfInt32(int32(q.size)))
	setField(request, "cursor", protoreflect.ValueOfString(q.cursor))
	response, err := s.invoke(ctx, l.String(), request)
	if err != nil {
		return page{}, err
	}
	m := response.ProtoReflect()
	p := page{next: field(m, "next_cursor").String(), ignored: field(m, "cursor_ignored").Bool()}
	messages := m.Get(l.Rows()).List()
	for i := range messages.Len() {
		message := messages.Get(i).Message()
		created, _ := field(message, "created_at").Message().Interface().(*timestamppb.Timestamp)
		p.rows = append(p.rows, row{id: field(message, "id").String(), at: timeOf(created)})
	}
	return p, nil
}

func field(m protoreflect.Message, name protoreflect.Name) protoreflect.Value {
	return m.Get(m.Descriptor().Fields().ByName(name))
}

func setField(m proto.Message, name protoreflect.Name, value protoreflect.Value) {
	m.ProtoReflect().Set(m.ProtoReflect().Descriptor().Fields().ByName(name), value)
}

// listChecks returns the checks of all lists. The checks of a list also send it a cursor of the next list.
func listChecks() []Check {
	var checks []Check
	all := lists()
	for i, l := range all {
		checks = append(checks, l.checks(all[(i+1)%len(all)])...)
	}
	return checks
}

func (l list) checks(other list) []Check {
	return append([]Check{
		{
			Name: l.String() + "/order", run: l.isOrdered,
			Sentence: "Rows are ordered newest first (`created_at` and then `id`, both descending).",
		},
		{
			Name: l.String() + "/page-size", Sentence: "INVALID_ARGUMENT naming `page_size` if it is not 1 to 100.",
			run: func(ctx context.Context, s *subject) error {
				for _, size := range []int{0, -1, contract.MaxPageSize + 1} {
					_, err := l.page(ctx, s, pageQuery{team: s.teams[0], size: size})
					if err := expectViolations(err, fmt.Sprint("page size ", size), "page_size"); err != nil {
						return err
					}
				}
				return nil
			},
		},
		{
			Name: l.String() + "/page-size-kept", run: l.keepsPageSize,
			Sentence: "A page has at most `page_size` rows.",
		},
		{
			Name: l.String() + "/walk", run: l.walksAll,
			Sentence: "`next_cursor` names the next page, and is empty on the last page.",
		},
		{
			Name: l.String() + "/walk-under-writes", Writes: true, run: l.walksUnderWrites,
			Sentence: "A cursor names a row: rows that are created during a walk never shift its later pages.",
		},
	}, l.cursorChecks(other)...)
}

func (l list) cursorChecks(other list) []Check {
	ignored := "A cursor that is not recognised is not an error: the first page is returned and `cursor_ignored` is set. Case: "
	return []Check{
		{
			Name: l.String() + "/cursor-format", run: l.formatsCursors,
			Sentence: "A cursor is at most 512 characters of the URL-safe base64 alphabet.",
		},
		{
			Name: l.String() + "/cursor-recognised", run: l.recognisesCursors,
			Sentence: "`cursor_ignored` is not set on a first page, nor if the cursor is recognised.",
		},
		{
			Name: l.String() + "/cursor-malformed", Sentence: ignored + "malformed.",
			run: func(ctx context.Context, s *subject) error {
				return l.ignores(ctx, s, "garbage", "%%%", strings.Repeat("A", 512), base64.RawURLEncoding.EncodeToString([]byte("i'1=1--")))
			},
		},
		{
			Name: l.String() + "/cursor-of-another-method", Sentence: ignored + "of another method.",
			run: func(ctx context.Context, s *subject) error {
				cursor, err := other.cursor(ctx, s, s.teams[0])
				if err != nil {
					return err
				}
				return l.ignores(ctx, s, cursor)
			},
		},
		{
			Name: l.String() + "/cursor-of-another-team", Sentence: ignored + "of another team.",
			run: func(ctx context.Context, s *subject) error {
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
	return l.page(ctx, s, pageQuery{team: s.teams[0], size: size})
}

// cursor returns a cursor of the team.
func (l list) cursor(ctx context.Context, s *subject, team Team) (string, error) {
	p, err := l.page(ctx, s, pageQuery{team: team, size: 1})
	if err != nil {
		return "", err
	}
	if p.next == "" {
		return "", skip("%s of team %s has no second page, and therefore no cursor", l.String(), team.ID)
	}
	return p.next, nil
}

func (l list) isOrdered(ctx context.Context, s *subject) error {
	p, err := l.first(ctx, s, contract.MaxPageSize)
	if err != nil {
		return err
	}
	return newestFirstThenByID(p.rows)
}

func (l list) keepsPageSize(ctx context.Context, s *subject) error {
	for _, size := range []int{1, 7, contract.MaxPageSize} {
		p, err := l.first(ctx, s, size)
		if err != nil {
			return err
		}
		if len(p.rows) > size {
			return expected(fmt.Sprint("at most ", size, " rows"), "%d rows", len(p.rows))
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
		return expected("cursor_ignored: false, without a cursor", "cursor_ignored: true")
	}
	cursor, err := l.cursor(ctx, s, s.teams[0])
	if err != nil {
		return err
	}
	second, err := l.page(ctx, s, pageQuery{team: s.teams[0], size: 1, cursor: cursor})
	if err != nil {
		return err
	}
	if second.ignored {
		return expected("cursor_ignored: false, with the cursor of the previous page", "cursor_ignored: true")
	}
	return nil
}

// ignores returns a breach if one of the cursors is not ignored.
func (l list) ignores(ctx context.Context, s *subject, cursors ...string) error {
	const size = 5
	for _, cursor := range cursors {
		err := retryOnChange(ctx, func() ([]string, error) {
			p, err := l.first(ctx, s, size)
			return idsOf(p.rows), err
		}, func(first []string) error {
			p, err := l.page(ctx, s, pageQuery{team: s.teams[0], size: size, cursor: cursor})
			switch {
			case err != nil:
				return expected(fmt.Sprintf("the first page for the cursor %.40q", cursor), "%s", resultText(err))
			case !p.ignored:
				return expected(fmt.Sprintf("cursor_ignored: true, for the cursor %.40q", cursor), "cursor_ignored: false")
			case !slices.Equal(idsOf(p.rows), first):
				return differentList(fmt.Sprintf("the first page for the cursor %.40q", cursor), first, idsOf(p.rows))
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// walk follows cursors through at most the given number of pages, and calls afterPage, if not nil, before it requests the next page. It
// returns the rows, and whether it reached the last page.
func (l list) walk(ctx context.Context, s *subject, size, pages int, afterPage func() error) (walked []row, complete bool, err error) {
	q := pageQuery{team: s.teams[0], size: size}
	for range pages {
		p, err := l.page(ctx, s, q)
		if err != nil {
			return nil, false, err
		}
		if walked = append(walked, p.rows...); p.next == "" {
			return walked, true, nil
		}
		if q.cursor = p.next; afterPage != nil {
			if err := afterPage(); err != nil {
				return nil, false, err
			}
		}
	}
	return walked, false, nil
}

// walksAll compares small pages with a large one.
func (l list) walksAll(ctx context.Context, s *subject) error {
	return retryOnChange(ctx, func() ([]string, error) {
		p, err := l.first(ctx, s, contract.MaxPageSize)
		return idsOf(p.rows), err
	}, func(all []string) error {
		if len(all) < 2 {
			return skip("team %s has fewer than two rows in the list", s.teams[0].ID)
		}
		size := (len(all) + 4) / 5
		rows, complete, err := l.walk(ctx, s, size, 6, nil)
		if err != nil {
			return err
		}
		walked := idsOf(rows)
		if !complete || len(all) == contract.MaxPageSize { // there are more
			walked = walked[:min(len(walked), len(all))]
		}
		if !slices.Equal(walked, all) {
			return differentList(fmt.Sprintf("on pages of %d, the rows of one page of 100", size), all, walked)
		}
		return nil
	})
}

// walksUnderWrites creates an incident, and so an audit entry, after each page. Other clients may write too, so the walk may begin with
// newer rows than those of the start.
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
			return expected("each row once in a walk with writes", "%s twice", id)
		}
	}
	if start := slices.Index(walked, want[0]); start > 0 { // other clients wrote before the walk began
		walked = walked[start:]
	}
	if n := min(len(walked), len(want)); len(walked) < size || !slices.Equal(walked[:n], want[:n]) {
		return differentList("the rows that existed when the walk began", want, walked)
	}
	return nil
}
