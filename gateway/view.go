package gateway

import (
	"opsgate/gateway/decode"
	"opsgate/gateway/jsonw"
)

// An encoder writes one resource as an object.
type encoder[M any] func(w *jsonw.Writer, m *M)

// one returns the view of a single resource. A response of a service without the resource violates its contract.
func one[M any](m *M, encode encoder[M]) View {
	return func(w *jsonw.Writer) {
		if m == nil {
			w.Fail("", "the service responded without the resource")
			return
		}
		encode(w, m)
	}
}

// list returns the view of all resources, as an array.
func list[M any](ms []*M, encode encoder[M]) View {
	return func(w *jsonw.Writer) {
		w.BeginArray()
		for _, m := range ms {
			encode(w, m)
		}
		w.EndArray()
	}
}

// page returns the view of one page; the cursor of the last page is null.
func page[M any](ms []*M, encode encoder[M], nextCursor string) View {
	return func(w *jsonw.Writer) {
		w.BeginObject()
		array(w, "items", ms, encode)
		switch {
		case nextCursor == "":
			w.Null("nextCursor")
		case isCursor(nextCursor):
			w.String("nextCursor", nextCursor)
		default: // the next request would get the first page again, and the client would loop forever
			w.Fail("nextCursor", "value is not a valid cursor")
		}
		w.EndObject()
	}
}

func array[M any](w *jsonw.Writer, name string, ms []*M, encode encoder[M]) {
	w.Array(name)
	for _, m := range ms {
		encode(w, m)
	}
	w.EndArray()
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
