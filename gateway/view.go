package gateway

import (
	"fmt"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"opsgate/gateway/decode"
	"opsgate/gateway/jsonw"
	"opsgate/internal/uuid"
)

type encoder[M any] func(w *jsonw.Writer, m *M)

// one returns the view of a single resource. A service that responds without the resource violates
// its contract.
func one[M any](m *M, encode encoder[M]) View {
	return func(w *jsonw.Writer) {
		if m == nil {
			w.Fail("", "the service responded without the resource")
			return
		}
		encode(w, m)
		if w.Err() != nil {
			w.Locate(idOf(m))
		}
	}
}

// list returns the view of all resources, as an array.
func list[M any](ms []*M, encode encoder[M]) View {
	return func(w *jsonw.Writer) {
		w.BeginArray()
		rows(w, ms, encode)
		w.EndArray()
	}
}

// page returns the view of one page of at most limit rows; the cursor of the last page is null.
func page[M any](ms []*M, limit int32, encode encoder[M], nextCursor string) View {
	return func(w *jsonw.Writer) {
		w.BeginObject()
		atMost(w, ms, limit)
		array(w, "items", ms, encode)
		switch {
		case nextCursor == "":
			w.Null("nextCursor")
		case isCursor(nextCursor):
			w.String("nextCursor", nextCursor)
		default: // the next request would get the first page again, and the client would loop forever
			w.Fail("nextCursor", fmt.Sprintf("%.50q is not a valid cursor", nextCursor))
		}
		w.EndObject()
	}
}

func array[M any](w *jsonw.Writer, name string, ms []*M, encode encoder[M]) {
	w.Array(name)
	rows(w, ms, encode)
	w.EndArray()
}

// rows writes the elements of an array. It ends at the first element that violates the contract.
// The error names this element.
func rows[M any](w *jsonw.Writer, ms []*M, encode encoder[M]) {
	if w.Err() != nil {
		return
	}
	for i, m := range ms {
		if encode(w, m); w.Err() != nil {
			w.Locate(fmt.Sprintf("row %d of %d, %s", i+1, len(ms), idOf(m)))
			return
		}
	}
}

// idOf names a message of a service in an error.
func idOf(m any) string {
	if named, ok := m.(interface{ GetId() string }); ok {
		return fmt.Sprintf("id %.50q", named.GetId())
	}
	return "without id"
}

// atMost fails a view with more rows than the request asked for.
func atMost[M any](w *jsonw.Writer, ms []*M, limit int32) {
	if len(ms) > int(limit) {
		w.Fail("", fmt.Sprintf("%d rows, and %d were asked for", len(ms), limit))
	}
}

// writeID writes an id of a service, which must be a UUID in lower case.
func writeID(w *jsonw.Writer, name, id string) {
	if canonical, ok := uuid.Canonical(id); !ok || canonical != id {
		w.Fail(name, fmt.Sprintf("%.50q is not a UUID in lower case", id))
		return
	}
	w.String(name, id)
}

func writeIDOrNull(w *jsonw.Writer, name string, id *string) {
	if id == nil {
		w.Null(name)
		return
	}
	writeID(w, name, *id)
}

// writeCount writes a number or a duration, which must not be negative.
func writeCount(w *jsonw.Writer, name string, n int64) {
	if n < 0 {
		w.Fail(name, fmt.Sprintf("%d is negative", n))
		return
	}
	w.Int(name, n)
}

// writeTime writes a time. It must not be the zero time of Unix or of Go, which programs store
// instead of no time.
func writeTime(w *jsonw.Writer, name string, t *timestamppb.Timestamp) {
	const firstOfYear1 = -62135596800
	if t != nil && t.GetNanos() == 0 && (t.GetSeconds() == 0 || t.GetSeconds() == firstOfYear1) {
		w.Fail(name, "is the zero time, "+t.AsTime().Format(time.RFC3339))
		return
	}
	w.Time(name, t)
}

func writeTimeOrNull(w *jsonw.Writer, name string, t *timestamppb.Timestamp) {
	if t == nil {
		w.Null(name)
		return
	}
	writeTime(w, name, t)
}

// isCursor reports whether the cursor has at most 512 characters, of the URL-safe base64 alphabet.
func isCursor(s string) bool {
	for i := range len(s) {
		switch c := s[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '-', c == '_':
		default:
			return false
		}
	}
	return len(s) <= decode.MaxCursorLen
}
