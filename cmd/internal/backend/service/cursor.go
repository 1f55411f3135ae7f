package service

import (
	"encoding/base64"

	"github.com/google/uuid"
)

// A cursorKind names the list of a cursor. A list ignores the cursors of other lists.
type cursorKind byte

const (
	incidentCursor cursorKind = 'i'
	auditCursor    cursorKind = 'a'
)

// encode returns a cursor with the id of a row. The position and the team of the row are looked up when the cursor is used, so a cursor
// reveals nothing and grants no access.
func (k cursorKind) encode(id string) (string, error) {
	parsed, err := uuid.Parse(id)
	if err != nil {
		return "", err
	}
	return base64.RawURLEncoding.EncodeToString(append([]byte{byte(k)}, parsed[:]...)), nil
}

// decode returns the id in a cursor, and whether it is a cursor of this kind. It checks the length first, because the decoder ignores
// line breaks.
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
