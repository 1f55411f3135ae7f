package gateway

import (
	"errors"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"opsgate/gateway/decode"
)

// Query returns the decoder of the request's query.
func (r *Request) Query() *decode.Query { return decode.NewQuery(r.http().URL.RawQuery) }

// Body reads the body of the request, and returns its decoder.
func (r *Request) Body() *decode.Body {
	if r.body == nil {
		r.body = &decode.Body{LiveTokenPrefix: r.gateway.options.LiveTokenPrefix, Dropped: r.endBody}
	}
	r.body.Reset(r.http().Header, r.route.Fields)
	if data, err := r.readBody(); err != nil {
		r.body.Reject(err)
	} else {
		r.body.Parse(data)
	}
	return r.body
}

// readBody reads the body, up to the limit of its size, if it is JSON without an encoding. The body
// has its own timeout, and the time in which it arrives extends the deadline of the request.
//
// A client that does not send its body must not hold resources that others need. So while the body
// arrives, the request has no in-flight slot, and its connection counts as idle.
func (r *Request) readBody() ([]byte, error) {
	header := r.http().Header
	if !isJSON(header["Content-Type"]) {
		return nil, unsupportedMediaType()
	}
	if coding := contentCoding(header["Content-Encoding"]); coding != "" {
		return nil, unsupportedCoding(coding)
	}
	limit := r.gateway.options.MaxBodyBytes
	if r.http().ContentLength > limit {
		return nil, tooLarge(limit)
	}
	if err := r.gateway.options.LoadLimit.arriving.begin(&r.arriving, r.Team(), r.http().ProtoMajor > 1); err != nil {
		return nil, requestTimeout(err)
	}
	// The error is ignored: only tests and dry runs have a writer without deadlines.
	controller, began := http.NewResponseController(r.gin.Writer), time.Now()
	deadline := began.Add(r.gateway.options.BodyTimeout)
	_ = controller.SetReadDeadline(deadline)
	r.gateway.releaseSlot(r)
	r.markIdle()
	data, err := r.readAll(http.MaxBytesReader(r.gin.Writer, r.http().Body, limit), deadline)
	r.busy = MarkBusy(r.http().Context())
	r.base.addBodyTime(time.Since(began))
	if err != nil {
		return nil, r.unreadBody(err)
	}
	// net/http continues to read, to detect a disconnect. An expired deadline would end its read,
	// which net/http would take for a disconnect.
	_ = controller.SetReadDeadline(time.Time{})
	return data, r.gateway.takeSlot(r)
}

func (r *Request) unreadBody(err error) *Problem {
	_, exceeded := errors.AsType[*http.MaxBytesError](err)
	switch {
	case exceeded:
		return tooLarge(r.gateway.options.MaxBodyBytes)
	case errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, errNoMemory):
		return requestTimeout(err)
	case r.clientGone():
		return clientClosed(err)
	}
	details := decode.Details(map[string]string{"body": "ended before it was complete"})
	return invalid(details).withCause(causeBody).withError(err)
}

// bodyStartBytes is the size of the buffer for the first bytes of a body. Most bodies fit into this
// buffer, which is not accounted.
const bodyStartBytes = 1 << 10

// readAll reads a body. Its buffer has bodyStartBytes or at most twice the size of what has
// arrived. Each larger buffer is accounted before it is allocated, until endBody is called.
func (r *Request) readAll(body io.Reader, deadline time.Time) ([]byte, error) {
	if r.bodyStart == nil {
		r.bodyStart = make([]byte, bodyStartBytes)
	}
	length := r.http().ContentLength
	if length < 0 {
		length = r.gateway.options.MaxBodyBytes
	}
	arriving := &r.gateway.options.LoadLimit.arriving
	data := r.bodyStart[:0]
	for {
		n, err := body.Read(data[len(data):cap(data)])
		data = data[:len(data)+n]
		switch {
		case errors.Is(err, io.EOF):
			return data, nil
		case err != nil:
			return nil, err
		case len(data) < cap(data):
			continue
		}
		size := min(2*int64(cap(data)), length+1) // with room to read the end
		if err := arriving.grow(r.http().Context(), &r.arriving, size, deadline); err != nil {
			return nil, err
		}
		data = append(make([]byte, 0, size), data...)
	}
}

// endBody releases the memory of the body. It is idempotent.
func (r *Request) endBody() { r.gateway.options.LoadLimit.arriving.end(&r.arriving) }

// isJSON reports whether the Content-Type is JSON. A missing one counts as JSON
// (docs/integrate/contract.md, "Bodies"). Parameters are ignored.
func isJSON(contentType []string) bool {
	if len(contentType) == 0 {
		return true
	}
	mediaType, _, _ := strings.Cut(contentType[0], ";")
	return len(contentType) == 1 && strings.ToLower(strings.TrimSpace(mediaType)) == "application/json"
}

// contentCoding returns the first coding in Content-Encoding other than identity, or "".
func contentCoding(header []string) string {
	for _, line := range header {
		for coding := range strings.SplitSeq(line, ",") {
			if coding = strings.TrimSpace(coding); coding != "" && !strings.EqualFold(coding, "identity") {
				return coding
			}
		}
	}
	return ""
}
