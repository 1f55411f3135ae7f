package refbackend

import (
	"encoding/base64"

	"github.com/google/uuid"
)

// A cursorKind is the list that a cursor is of: one list's cursors mean nothing to another.
type cursorKind byte

const (
	incidentCursor cursorKind = 'i'
	auditCursor    cursorKind = 'a'
)

// encode names a row by its id alone. Where the row stands, and whose it is, is looked up when the cursor comes back, so a
// cursor tells nothing and gives no access.
func (k cursorKind) encode(id string) (string, error) {
	parsed, err := uuid.Parse(id)
	if err != nil {
		return "", err
	}
	return base64.RawURLEncoding.EncodeToString(append([]byte{byte(k)}, parsed[:]...)), nil
}

// decode returns the id in a cursor, and whether it is a cursor of this kind. Its length is looked at first, because the decoder
// passes over line breaks.
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
