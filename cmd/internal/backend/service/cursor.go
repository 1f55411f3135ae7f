package service

import (
	"database/sql"
	"encoding/base64"
	"errors"
	"fmt"
	"math"

	"github.com/google/uuid"
)

// A cursorKind names the list of a cursor. A list ignores the cursors of other lists.
type cursorKind byte

const (
	incidentCursor cursorKind = 'i'
	auditCursor    cursorKind = 'a'
)

// encode returns a cursor with the id of a row. The position and the team of the row are looked up
// when the cursor is used, so a cursor reveals nothing and grants no access.
func (k cursorKind) encode(id string) (string, error) {
	parsed, err := uuid.Parse(id)
	if err != nil {
		return "", err
	}
	return base64.RawURLEncoding.EncodeToString(append([]byte{byte(k)}, parsed[:]...)), nil
}

// decode returns the id in a cursor, and whether it is a cursor of this kind. It checks the length
// first, because the decoder ignores line breaks.
func (k cursorKind) decode(cursor string) (id string, ok bool) {
	const size = 1 + len(uuid.UUID{})
	if len(cursor) != base64.RawURLEncoding.EncodedLen(size) {
		return "", false
	}
	raw, err := base64.RawURLEncoding.Strict().DecodeString(cursor)
	if err != nil || len(raw) != size || raw[0] != byte(k) {
		return "", false
	}
	return uuid.UUID(raw[1:]).String(), true
}

// A place is the position of a row in a list, which is ordered by time and id, newest first.
type place struct {
	createdAt int64
	id        string
}

// pageQueries are the queries of a list of one team.
type pageQueries[Row any] struct {
	cursor cursorKind
	find   func(id string) (Row, error) // a row of the team
	place  func(Row) place
	list   func(after place, limit int64) ([]Row, error)
}

// A page is a part of a list.
type page[Row any] struct {
	rows          []Row
	next          string // the cursor of the next page; "" on the last one
	cursorIgnored bool   // the cursor of the request names no row of the list
}

// readPage reads the page after the cursor of a request, or the first one without a valid cursor.
func readPage[Row any](r interface {
	GetPageSize() int32
	GetCursor() string
}, q pageQueries[Row],
) (p page[Row], err error) {
	var problems violations
	problems.pageSize(r.GetPageSize())
	if err := problems.err(); err != nil {
		return p, err
	}
	after := place{createdAt: math.MaxInt64}
	id, found := q.cursor.decode(r.GetCursor())
	if found {
		switch row, err := q.find(id); {
		case err == nil:
			after = q.place(row)
		case errors.Is(err, sql.ErrNoRows):
			found = false
		default:
			return p, fmt.Errorf("look up the cursor: %w", err)
		}
	}
	p.cursorIgnored = r.GetCursor() != "" && !found
	size := int(r.GetPageSize())
	if p.rows, err = q.list(after, int64(size)+1); err != nil {
		return p, fmt.Errorf("list the rows: %w", err)
	}
	if len(p.rows) > size {
		p.rows = p.rows[:size]
		if p.next, err = q.cursor.encode(q.place(p.rows[size-1]).id); err != nil {
			return p, fmt.Errorf("make a cursor: %w", err)
		}
	}
	return p, nil
}
