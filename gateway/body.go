package gateway

import (
	"bytes"
	"errors"
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
		r.body = &decode.Body{TokenPrefix: r.gateway.options.TokenPrefix}
	}
	r.body.Reset(r.http().Header, r.route.Fields)
	if data, err := r.readBody(); err != nil {
		r.body.Reject(err)
	} else {
		r.body.Parse(data)
	}
	return r.body
}

// readBody reads the body, up to the limit of its size, if it is JSON without an encoding. The body has its own timeout. The time spent on
// reading it extends the deadline of the request.
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
	// The error is ignored: only tests and dry runs have a writer without deadlines.
	controller, began := http.NewResponseController(r.gin.Writer), time.Now()
	_ = controller.SetReadDeadline(began.Add(r.gateway.options.BodyTimeout))
	var data bytes.Buffer
	data.Grow(int(max(0, r.http().ContentLength)) + bytes.MinRead) // ReadFrom needs MinRead of room to read the end
	_, err := data.ReadFrom(http.MaxBytesReader(r.gin.Writer, r.http().Body, limit))
	r.base.addBodyTime(time.Since(began))
	if _, exceeded := errors.AsType[*http.MaxBytesError](err); exceeded {
		return nil, tooLarge(limit)
	}
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, requestTimeout(err)
	case err != nil && r.clientGone():
		return nil, clientClosed(err)
	case err != nil:
		return nil, invalid(decode.Details(map[string]string{"body": "ended before it was complete"})).withCause(causeBody).withError(err)
	}
	// net/http continues to read, to detect a disconnect. An expired deadline would end that read and look like a disconnect.
	_ = controller.SetReadDeadline(time.Time{})
	return data.Bytes(), nil
}

// isJSON reports whether the Content-Type is JSON. A missing one counts as JSON (docs/integrate/contract.md, "Bodies"). Parameters are
// ignored.
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
