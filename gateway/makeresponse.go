package gateway

import (
	"maps"
	"net/http"
	"net/url"
	"strconv"

	"opsgate/gateway/apidocs"
	"opsgate/gateway/responses"
)

// Header values that are the same in all responses. net/http does not modify them.
var (
	contentTypeJSON = []string{"application/json; charset=utf-8"}
	contentTypeText = []string{"text/plain; charset=utf-8"}
	cacheControl    = []string{"private, no-cache"}
	cachePublic     = []string{"public, no-cache"}
	anyOrigin       = []string{"*"}
	noSniff         = []string{"nosniff"}
	transportSecure = []string{"max-age=31536000"}
	varyEncoding    = []string{"Accept-Encoding"}
	varyPage        = []string{"Accept-Encoding, Accept"}
	encodingGzip    = []string{"gzip"}
	headerTrue      = []string{"true"}
	cursorIgnored   = []string{"ignored"}
	connectionClose = []string{"close"}
)

// makeResponse makes the response from the handler's reply or an error. It sets the headers, and
// returns the rest of the response.
func (r *Request) makeResponse(reply Reply, err error) preparedResponse {
	h := r.gin.Writer.Header()
	var problem *Problem
	if err != nil {
		problem = problemOf(err, &r.route.Route, r.clientGone())
		if isRefunded(problem) {
			r.scheduleRefund() // before commonHeaders writes the remaining requests
		}
	}
	r.commonHeaders(h)
	switch {
	case problem != nil:
		return r.problemResponse(h, problem)
	case reply.page != nil:
		return r.pageResponse(h, reply.page)
	case reply.text != "":
		return r.textResponse(h, reply.text)
	case reply.redirect != 0:
		r.setHeader(h, "Location", docsPath)
		return r.newResponse(reply.redirect, "ok", nil)
	case reply.allow != "":
		r.setHeader(h, "Allow", reply.allow)
		return r.newResponse(http.StatusNoContent, "ok", nil)
	}
	return r.successResponse(h, reply)
}

// commonHeaders sets the headers of every response. Do not add a header to small responses over
// HTTP/1.1 without TLS: they have eight, and a larger map, which net/http copies, needs three times
// the memory. TLS and HTTP/2 each add a header.
func (r *Request) commonHeaders(h http.Header) {
	r.setHeader(h, "X-Request-Id", r.id)
	h["Cache-Control"] = cacheControl
	h["X-Content-Type-Options"] = noSniff
	if r.gateway.options.TLS { // without includeSubDomains, as other hosts of the domain may have no TLS
		h["Strict-Transport-Security"] = transportSecure
	}
	if r.limitSet != nil {
		h["Ratelimit-Policy"] = r.limitSet.header
		var field [256]byte
		r.setHeader(h, "Ratelimit", string(r.limitSet.appendRemaining(field[:0], &r.decision)))
	}
	if r.route.deprecated != nil {
		h["Deprecation"], h["Sunset"] = r.route.deprecated, r.route.sunset
	}
	if len(r.http().TransferEncoding) > 0 {
		// RFC 9112, section 6.1, requires this if the request also has a Content-Length. net/http
		// has removed such a header, so each connection with a chunked request is closed.
		h["Connection"] = connectionClose
	}
}

// setHeader sets a header whose value differs by request. The name must be in canonical form. The
// call panics if the response already has maxHeaderValues such headers.
func (r *Request) setHeader(h http.Header, name, value string) {
	values, i := &r.base.headerValues, r.base.numValues
	values[i] = value
	h[name] = values[i : i+1 : i+1] // does not allocate; with this capacity, an append does not overwrite the next value
	r.base.numValues++
}

func (r *Request) problemResponse(h http.Header, p *Problem) preparedResponse {
	delete(h, "Allow") // set by Gin; only a 405 has it
	maps.Copy(h, p.Header)
	r.setHeader(h, "Link", "<"+errorsPath+"#"+p.Code+`>; rel="help"`)
	if p.RetryAfter > 0 {
		r.setHeader(h, "Retry-After", strconv.FormatInt(wholeSeconds(p.RetryAfter), 10))
	}
	h["Content-Type"] = contentTypeJSON
	r.response.JSON.Reset()
	p.encode(&r.response.JSON)
	resp := r.newResponse(p.Status, p.Code, r.response.JSON.Bytes())
	resp.causeLabel, resp.cause, resp.err = p.Cause.label(), p.Cause, p.err
	return resp
}

func (r *Request) successResponse(h http.Header, reply Reply) preparedResponse {
	h["Content-Type"] = contentTypeJSON
	if reply.CursorIgnored {
		h["Cursor-Status"] = cursorIgnored
	}
	if reply.Replayed {
		h["Idempotent-Replayed"] = headerTrue
	}
	if ignored := r.Query().Unknown(r.route.parameters(), r.gateway.options.LiveTokenPrefix); ignored != "" {
		r.setHeader(h, "Ignored-Parameters", ignored)
	}
	if reply.NextCursor != "" {
		r.setHeader(h, "Link", r.nextLink(reply.NextCursor))
	}
	return r.contentResponse(h, r.response.JSON.Bytes(), nil)
}

func (r *Request) pageResponse(h http.Header, page *apidocs.Page) preparedResponse {
	vary := varyEncoding
	if page.Markdown != nil {
		vary = varyPage
		if responses.PrefersMarkdown(r.http()) {
			page = page.Markdown
		}
	}
	h["Access-Control-Allow-Origin"], h["Cache-Control"] = anyOrigin, cachePublic
	r.setHeader(h, "Content-Type", page.ContentType)
	if page.CSP != "" {
		r.setHeader(h, "Content-Security-Policy", page.CSP)
	}
	if page.Link != "" {
		r.setHeader(h, "Link", page.Link)
	}
	resp := r.contentResponse(h, page.Body, page.Gzip)
	h["Vary"] = vary
	resp.shared = true
	return resp
}

func (r *Request) textResponse(h http.Header, text string) preparedResponse {
	h["Access-Control-Allow-Origin"], h["Cache-Control"], h["Content-Type"] = anyOrigin, cachePublic, contentTypeText
	return r.contentResponse(h, []byte(text), nil)
}

// contentResponse returns a 200 with the body, or a 304 if the client has cached the body. If
// compressed is nil and the client accepts gzip, it compresses the body.
func (r *Request) contentResponse(h http.Header, body, compressed []byte) preparedResponse {
	h["Vary"] = varyEncoding
	negotiated := responses.Negotiate(r.http(), body)
	if negotiated.ETag != "" {
		r.setHeader(h, "Etag", negotiated.ETag)
	}
	if negotiated.NotModified {
		for _, name := range []string{"Content-Type", "Cursor-Status", "Ignored-Parameters", "Link"} {
			delete(h, name) // the response that the client has cached includes them (RFC 9110, section 15.4.5)
		}
		return r.newResponse(http.StatusNotModified, "ok", nil)
	}
	if negotiated.Gzip {
		h["Content-Encoding"] = encodingGzip
		if compressed == nil {
			compressed = r.response.Gzip(body)
		}
		body = compressed
	}
	return r.newResponse(http.StatusOK, "ok", body)
}

func (r *Request) newResponse(status int, code string, body []byte) preparedResponse {
	// Over HTTP/2, net/http does not add the Content-Length, because Send flushes.
	implicit := len(body) <= responses.MaxImplicitLength && r.http().ProtoMajor == 1
	// 204 and 304 have no Content-Length. A redirect has no body.
	if (status >= http.StatusBadRequest || status == http.StatusOK) && !implicit {
		r.setHeader(r.gin.Writer.Header(), "Content-Length", strconv.Itoa(len(body)))
	}
	return preparedResponse{outcome: outcome{status: status, code: code}, body: body}
}

// nextLink returns the Link header of a page that is not the last (RFC 8288). It is the URL of this
// request with the next cursor, without parameters that the route does not have.
func (r *Request) nextLink(cursor string) string {
	sent, q := r.Query(), make(url.Values, len(r.route.Fields))
	for _, name := range r.route.Fields {
		if v := sent.Text(name); v != "" {
			q.Set(name, v)
		}
	}
	q.Set("cursor", cursor)
	return "<" + r.http().URL.EscapedPath() + "?" + q.Encode() + `>; rel="next"`
}
