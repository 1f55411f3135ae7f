package refbackend

import (
	"math"
	"time"

	"github.com/google/uuid"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// maxPage is the most that one page of anything holds.
const maxPage = 100

// canonicalID returns an id as the store has it, in lower case, and whether it is a UUID of the form 8-4-4-4-12 at all.
func canonicalID(id string) (string, bool) {
	const length = 36 // uuid.Parse also takes braces and a URN
	if len(id) != length {
		return "", false
	}
	parsed, err := uuid.Parse(id)
	if err != nil {
		return "", false
	}
	return parsed.String(), true
}

// newID returns a new id; later ones are greater.
func newID() (string, error) {
	id, err := uuid.NewV7()
	return id.String(), err
}

// timestamp turns the store's nanoseconds into a message.
func timestamp(nanoseconds int64) *timestamppb.Timestamp {
	return timestamppb.New(time.Unix(0, nanoseconds))
}

// optionalTimestamp is absent where the store has no value.
func optionalTimestamp(nanoseconds *int64) *timestamppb.Timestamp {
	if nanoseconds == nil {
		return nil
	}
	return timestamp(*nanoseconds)
}

// optionalInt32 is absent where the store has no value.
func optionalInt32(value *int64) *int32 {
	if value == nil {
		return nil
	}
	narrow := int32(*value)
	return &narrow
}

// views turns rows into messages. It never returns nil: no rows are an empty list.
func views[Row, Message any](rows []Row, view func(Row) Message) []Message {
	messages := make([]Message, len(rows))
	for i, row := range rows {
		messages[i] = view(row)
	}
	return messages
}

// storedTime turns a time into the store's nanoseconds. Those reach from 1677 to 2262; a time beyond is as good as the nearest.
func storedTime(t time.Time) int64 {
	switch earliest, latest := time.Unix(0, math.MinInt64), time.Unix(0, math.MaxInt64); {
	case t.Before(earliest):
		return math.MinInt64
	case t.After(latest):
		return math.MaxInt64
	default:
		return t.UnixNano()
	}
}
