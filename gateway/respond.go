package gateway

import (
	"encoding/binary"
	"encoding/hex"
	"maps"
	"net/http"
	"net/url"
	"strconv"

	"github.com/cespare/xxhash/v2"

	"opsgate/gateway/openapi"
)

// Header values that are the same for every response. net/http reads header values and never writes to them.
var (
	contentTypeJSON = []string{"application/json; charset=utf-8"}
	cacheControl    = []string{"private, no-cache"}
	noSniff         = []string{"nosniff"}
	transportSecure = []string{"max-age=31536000"}
	varyEncoding    = []string{"Accept-Encoding"}
	encodingGzip    = []string{"gzip"}
	headerTrue      = []string{"true"}
	cursorIgnored   = []string{"ignored"}
	connectionClose = []string{"close"}
)

// respond writes the one response of a request: what the handler replied, or what went wrong.
func (r *Request) respond(reply Reply, err error) sent {
	h := r.gin.Writer.Header()
	var problem *Problem
	if err != nil {
		problem = problemOf(err, &r.route.Route, r.clientGone())
		if problem.Status >= http.StatusInternalServerError {
			r.refund() // before the headers show the usage
		}
	}
	r.commonHeaders(h)
	switch {
	case problem != nil:
		return r.problem(h, problem)
	case reply.page != nil:
		return r.document(h, reply.page)
	case reply.redirect != 0:
		r.set(h, "Location", docsPath)
		return r.write(reply.redirect, "ok", nil)
	case reply.allow != "":
		r.set(h, "Allow", reply.allow)
		return r.write(http.StatusNoContent, "ok", nil)
	}
	return r.success(h, reply)
}

// commonHeaders are those of every response, refusals included. A small answer has eight fields in all: with one more, the map that
// net/http keeps them in, and copies, takes three times the memory.
func (r *Request) commonHeaders(h http.Header) {
	r.set(h, "X-Request-Id", r.id)
	h["Cache-Control"] = cacheControl
	h["X-Content-Type-Options"] = noSniff
	if r.gateway.tls { // for a year, and without includeSubDomains: other hosts of the domain may have no TLS
		h["Strict-Transport-Security"] = transportSecure
	}
	if r.terms != nil {
		h["Ratelimit-Policy"] = r.terms.header
		var field [256]byte
		r.set(h, "Ratelimit", string(r.terms.appendBudgets(field[:0], &r.decision)))
	}
	if len(r.http().TransferEncoding) > 0 {
		// RFC 9112, section 6.1: had a Content-Length come along, the connection would have to be closed, and net/http hides
		// whether one did.
		h["Connection"] = connectionClose
	}
}

// set sets a header field to a value made for this request. Names are in the form that net/http keeps them in.
func (r *Request) set(h http.Header, name, value string) {
	i := r.header
	r.values[i] = value
	h[name] = r.values[i : i+1 : i+1]
	r.header++
}

// problem writes an error.
func (r *Request) problem(h http.Header, p *Problem) sent {
	delete(h, "Allow") // Gin's, which only a 405 may tell
	maps.Copy(h, p.Header)
	if p.RetryAfter > 0 {
		r.set(h, "Retry-After", strconv.FormatInt(wholeSeconds(p.RetryAfter), 10))
	}
	h["Content-Type"] = contentTypeJSON
	r.out.Reset()
	p.encode(&r.out)
	s := r.write(p.Status, p.Code, r.out.Bytes())
	s.counted, s.cause, s.err = p.Cause.counted(), p.Cause, p.err
	return s
}

func (r *Request) success(h http.Header, reply Reply) sent {
	h["Content-Type"] = contentTypeJSON
	if reply.CursorIgnored {
		h["Cursor-Status"] = cursorIgnored
	}
	if reply.Replayed {
		h["Idempotent-Replayed"] = headerTrue
	}
	if reply.NextCursor != "" {
		r.set(h, "Link", nextLink(r.http().URL, reply.NextCursor))
	}
	return r.content(h, r.out.Bytes(), nil)
}

// document writes a page of the documentation, which is public. It is made already, and larger than what a connection buffers, so it
// has a bound of its own and takes no place among the requests in flight.
func (r *Request) document(h http.Header, page *openapi.Page) sent {
	r.gateway.leave(r)
	end := r.gateway.capacity.downloads.begin(r.gin.Writer, r.start)
	if end == nil {
		return r.problem(h, r.gateway.overloaded)
	}
	defer end()
	r.set(h, "Content-Type", page.ContentType)
	r.set(h, "Cache-Control", "public, no-cache")
	if page.CSP != "" {
		r.set(h, "Content-Security-Policy", page.CSP)
	}
	return r.content(h, page.Body, page.Gzip)
}

// content writes a body that may be asked for conditionally and in gzip; zipped is the body in gzip where that is at hand. The
// ETag is strong and of the content alone; gzip is another representation, and so has another one (RFC 9110, section 8.8.3.3).
func (r *Request) content(h http.Header, body, zipped []byte) sent {
	h["Vary"] = varyEncoding
	zip := len(body) > minZipBytes && acceptsGzip(r.http().Header["Accept-Encoding"])
	if r.http().Method != http.MethodPost {
		tag := entityTag(body, zip)
		r.set(h, "Etag", tag)
		if matchesTag(r.http().Header["If-None-Match"], tag) {
			for _, known := range []string{"Content-Type", "Cursor-Status", "Link"} {
				delete(h, known) // they came with what the client has (RFC 9110, section 15.4.5)
			}
			return r.write(http.StatusNotModified, "ok", nil)
		}
	}
	if zip {
		h["Content-Encoding"] = encodingGzip
		if zipped == nil {
			zipped = r.zip(body)
		}
		body = zipped
	}
	return r.write(http.StatusOK, "ok", body)
}

// countedByHTTP is the size of a body up to which net/http adds the Content-Length by itself, without a place in the map of fields.
const countedByHTTP = 2 << 10

// write sends status, headers and body in one write. HEAD has the headers of GET, and net/http drops its body.
func (r *Request) write(status int, code string, body []byte) sent {
	s := sent{outcome: outcome{status: status, code: code}, bytes: len(body)}
	if status == statusClientClosed {
		return s
	}
	w := r.gin.Writer
	if status >= http.StatusBadRequest || status == http.StatusOK && len(body) > countedByHTTP {
		r.set(w.Header(), "Content-Length", strconv.Itoa(len(body)))
	}
	w.WriteHeader(status)
	if len(body) == 0 {
		w.WriteHeaderNow()
		return s
	}
	_, _ = w.Write(body) // fails only where the client is gone
	return s
}

const zippedSuffix = "-gzip"

func entityTag(body []byte, zipped bool) string {
	var tag [24]byte
	b := append(tag[:0], '"')
	var sum [8]byte
	binary.BigEndian.PutUint64(sum[:], xxhash.Sum64(body))
	b = hex.AppendEncode(b, sum[:])
	if zipped {
		b = append(b, zippedSuffix...)
	}
	return string(append(b, '"'))
}

// nextLink is the Link field of a page that is not the last (RFC 8288): this request's path and parameters at the next cursor.
func nextLink(u *url.URL, cursor string) string {
	sent, q := Query{raw: u.RawQuery}, url.Values{"cursor": {cursor}}
	for _, name := range []string{"action", "limit"} {
		if v := sent.Text(name); v != "" {
			q.Set(name, v)
		}
	}
	return "<" + u.EscapedPath() + "?" + q.Encode() + `>; rel="next"`
}
