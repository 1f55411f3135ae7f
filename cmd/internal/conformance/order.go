package conformance

import (
	"cmp"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"
)

// A row is the part of a list's element that determines its order.
type row struct {
	id       string
	name     string
	position int32
	at       time.Time
}

func (r row) String() string {
	switch {
	case r.name != "":
		return r.name + " (" + r.id + ")"
	case !r.at.IsZero():
		return strings.TrimSpace(r.at.UTC().Format(time.RFC3339Nano) + " " + r.id)
	}
	return r.id
}

// rows converts messages to rows.
func rows[M any](messages []M, convert func(M) row) []row {
	list := make([]row, len(messages))
	for i, m := range messages {
		list[i] = convert(m)
	}
	return list
}

// idsOf returns the ids of rows.
func idsOf(list []row) []string {
	ids := make([]string, len(list))
	for i, r := range list {
		ids[i] = r.id
	}
	return ids
}

// ordered returns a breach if two neighbours are in the wrong order. It skips lists with fewer than two rows.
func ordered(list []row, order string, compare func(a, b row) int) error {
	if len(list) < 2 {
		return skip("the list has fewer than two rows")
	}
	for i := range len(list) - 1 {
		if compare(list[i], list[i+1]) > 0 {
			return expected("rows "+order, "%v before %v", list[i], list[i+1])
		}
	}
	return nil
}

// orderedByName accepts names in the order of their bytes, and names in the order of their letters regardless of case: the contract allows
// both, because databases differ.
func orderedByName(list []row) error {
	const order = "by name and then by id"
	byBytes := func(a, b row) int { return cmp.Or(cmp.Compare(a.name, b.name), cmp.Compare(a.id, b.id)) }
	byLetters := func(a, b row) int {
		if a.name == b.name {
			return cmp.Compare(a.id, b.id)
		}
		return cmp.Compare(strings.ToLower(a.name), strings.ToLower(b.name))
	}
	err := ordered(list, order, byBytes)
	if err != nil && ordered(list, order, byLetters) == nil {
		return nil
	}
	return err
}

func orderedByPosition(list []row) error {
	return ordered(list, "by position and then by id", func(a, b row) int {
		return cmp.Or(cmp.Compare(a.position, b.position), cmp.Compare(a.id, b.id))
	})
}

func newestFirst(list []row) error {
	return ordered(list, "newest first", func(a, b row) int { return b.at.Compare(a.at) })
}

// newestFirstThenByID is the order of lists with cursors.
func newestFirstThenByID(list []row) error {
	return ordered(list, "newest first, and by descending id for equal times", func(a, b row) int {
		return cmp.Or(b.at.Compare(a.at), cmp.Compare(b.id, a.id))
	})
}

func oldestFirst(list []row) error {
	return ordered(list, "oldest first", func(a, b row) int { return a.at.Compare(b.at) })
}

// timeOf returns the zero time for nil. The well-formed checks report missing times.
func timeOf(t *timestamppb.Timestamp) time.Time {
	if t == nil {
		return time.Time{}
	}
	return t.AsTime()
}
