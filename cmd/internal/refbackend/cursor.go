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

// decode returns the id in a cursor, and whether it is a cursor of this kind.
func (k cursorKind) decode(cursor string) (id string, ok bool) {
	raw, err := base64.RawURLEncoding.Strict().DecodeString(cursor)
	if err != nil || len(raw) != 1+len(uuid.UUID{}) || raw[0] != byte(k) {
		return "", false
	}
	return uuid.UUID(raw[1:]).String(), true
}
