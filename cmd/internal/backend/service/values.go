package service

import (
	"fmt"
	"math"
	"time"

	"github.com/google/uuid"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// maxPage is the largest page size.
const maxPage = 100

// newID returns a new id. Ids are in the order of their creation.
func newID() string { return uuid.Must(uuid.NewV7()).String() } // the source of random numbers never fails

// timestamp converts stored nanoseconds.
func timestamp(nanoseconds int64) *timestamppb.Timestamp {
	return timestamppb.New(time.Unix(0, nanoseconds))
}

// optionalTimestamp returns nil for nil.
func optionalTimestamp(nanoseconds *int64) *timestamppb.Timestamp {
	if nanoseconds == nil {
		return nil
	}
	return timestamp(*nanoseconds)
}

// TimeOf returns a stored time in UTC, or the zero time for nil.
func TimeOf(nanoseconds *int64) time.Time {
	if nanoseconds == nil {
		return time.Time{}
	}
	return time.Unix(0, *nanoseconds).UTC()
}

// optionalInt32 returns nil for nil.
func optionalInt32(value *int64) *int32 {
	if value == nil {
		return nil
	}
	narrow := int32(*value)
	return &narrow
}

// list returns a function that receives the result of a query, and sets messages to its converted
// rows.
func list[Row, Message any](messages *[]Message, what string, toMessage func(Row) Message) func([]Row, error) error {
	return func(rows []Row, err error) error {
		if err != nil {
			return fmt.Errorf("list the %s: %w", what, err)
		}
		*messages = convert(rows, toMessage)
		return nil
	}
}

// convert converts rows to messages.
func convert[Row, Message any](rows []Row, toMessage func(Row) Message) []Message {
	messages := make([]Message, len(rows))
	for i, row := range rows {
		messages[i] = toMessage(row)
	}
	return messages
}

// storedTime converts a time to stored nanoseconds. It clamps times outside the representable years
// 1677 to 2262.
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
