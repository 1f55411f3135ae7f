package gateway

import "opsgate/gateway/jsonw"

// An encoder writes one resource as an object.
type encoder[M any] func(w *jsonw.Writer, m *M)

// one shows a single resource. A service that answers OK without it has broken its contract.
func one[M any](m *M, encode encoder[M]) View {
	return func(w *jsonw.Writer) {
		if m == nil {
			w.Fail("", "the service answered without the resource")
			return
		}
		encode(w, m)
	}
}

// list shows all resources as a bare array.
func list[M any](ms []*M, encode encoder[M]) View {
	return func(w *jsonw.Writer) {
		w.BeginArray()
		for _, m := range ms {
			encode(w, m)
		}
		w.EndArray()
	}
}

// page shows one page of a walk by cursor; the cursor is null on the last.
func page[M any](ms []*M, encode encoder[M], nextCursor string) View {
	return func(w *jsonw.Writer) {
		w.BeginObject()
		array(w, "items", ms, encode)
		if nextCursor == "" {
			w.Null("nextCursor")
		} else {
			w.String("nextCursor", nextCursor)
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
