package gateway

import (
	"bytes"
	"errors"
	"log/slog"
	"net/http"
	"net/netip"
	"os"
	"time"

	"opsgate/gateway/jsonw"
	"opsgate/internal/netaddr"
)

const (
	// responseCost is accounted for each unwritten response beside its buffers: the stack of its
	// goroutine, the stream and the writer of net/http.
	responseCost = 16 << 10
	// socketCost is the most that is accounted for a body that responses share: only its copy in
	// the socket takes memory.
	socketCost = 128 << 10
	// maxUnusedBytes is a bound of the buffers of a request: trim drops them if they are larger
	// than twice the body plus maxUnusedBytes.
	maxUnusedBytes = 256 << 10

	// anonymousWriteTimeout is the time to write a response of at most maxSmallBytes to an
	// anonymous request. It is enough for a client that reads at all: the buffers of its connection
	// hold so much.
	anonymousWriteTimeout = 5 * time.Second
	maxSmallBytes         = 64 << 10

	// maxBuffered is the size of a body up to which a response without TLS is buffered, to be sent
	// with one write.
	maxBuffered = 32 << 10
)

// send writes the response that makeResponse has made, and accounts its memory until it is written.
// It does not account an HTTP/1.1 response that net/http buffers and writes after the handler: a
// connection has at most one of those.
func (r *Request) send(resp preparedResponse) {
	req := r.http()
	r.gin.Writer.WriteHeader(resp.status)
	if req.ProtoMajor == 1 && (len(resp.body) <= maxImplicitLength || req.Method == http.MethodHead) {
		_ = r.writeBody(resp.body) // fails only if the client has disconnected
		return
	}
	// The client has reset the HTTP/2 stream: accounting this response could cut off others for
	// nothing. Over HTTP/1.1, the client may have closed only its sending side and still read.
	if req.ProtoMajor > 1 && r.clientGone() {
		return
	}
	from, began := r.ClientAddr(), r.gateway.options.Clock()
	// Hundreds of small headers take more memory than all else that a stream holds. net/http does
	// not read them any more.
	req.Header = nil
	r.trim(&resp)
	r.unwritten = unwrittenResponse{bytes: r.cost(resp), aborter: r}
	if r.principal == nil && len(resp.body) <= maxSmallBytes {
		r.unwritten.deadline = began.Add(anonymousWriteTimeout)
	}
	all := r.gateway.options.LoadLimit.unwritten
	all.begin(&r.unwritten, origin{netaddr.SiteOf(from), r.tokenID()})
	err := r.writeAll(resp.body)
	cause := all.end(&r.unwritten)
	if err == nil {
		return
	}
	// After an error, an HTTP/2 connection may still read the body: its buffer must not be reused.
	r.out, r.compressed = jsonw.Writer{}, bytes.Buffer{}
	if cause == "" && errors.Is(err, os.ErrDeadlineExceeded) { // the server's write timeout ended the write, not abort
		cause = cutDeadline
		all.count(cause)
	}
	if cause != "" {
		r.logCutOff(cause, from, r.gateway.options.Clock().Sub(began))
	}
}

// writer returns the writer of net/http below Gin's: a ResponseController would use Gin's Flush,
// which returns no error.
func (r *Request) writer() http.ResponseWriter {
	if gin, ok := r.gin.Writer.(interface{ Unwrap() http.ResponseWriter }); ok {
		return gin.Unwrap()
	}
	return r.gin.Writer
}

// writeAll writes the header and the body to the connection. It flushes, because what net/http
// writes after the handler has returned can neither be cut off nor accounted.
func (r *Request) writeAll(body []byte) error {
	write := func() error {
		if err := r.writeBody(body); err != nil {
			return err
		}
		return http.NewResponseController(r.writer()).Flush()
	}
	if c := r.bufferingConnection(body); c != nil {
		return c.WriteAtOnce(write)
	}
	return write()
}

// bufferingConnection returns the connection if it buffers the response (WriteAtOnce), else nil.
// net/http alone writes each 4 KiB. Without TLS the request came over HTTP/1.1, as WriteAtOnce
// requires, because the server has HTTP/2 only with TLS.
func (r *Request) bufferingConnection(body []byte) Connection {
	if r.http().TLS != nil || len(body) > maxBuffered {
		return nil
	}
	return ConnectionOf(r.http().Context())
}

// writeBody writes the header and the body in one write. net/http drops the body of a response to
// HEAD.
func (r *Request) writeBody(body []byte) error {
	if len(body) == 0 {
		r.gin.Writer.WriteHeaderNow()
		return nil
	}
	_, err := r.gin.Writer.Write(body)
	return err
}

// trim drops the buffers of the request if they are much larger than the body, so that a client
// that reads slowly does not hold them.
func (r *Request) trim(resp *preparedResponse) {
	if r.out.Cap()+r.compressed.Cap() <= 2*len(resp.body)+maxUnusedBytes {
		return
	}
	if !resp.outsideBuffers {
		resp.body = bytes.Clone(resp.body)
		resp.outsideBuffers, resp.extraBytes = true, len(resp.body)
	}
	r.out, r.compressed = jsonw.Writer{}, bytes.Buffer{}
}

// cost returns the memory of a response until it is written.
func (r *Request) cost(resp preparedResponse) int64 {
	bytes := responseCost + len(r.http().RequestURI) + r.out.Cap() + r.compressed.Cap() + resp.extraBytes
	if r.bufferingConnection(resp.body) != nil {
		bytes += len(resp.body)
	}
	return int64(bytes)
}

// abort makes a write of the response return. It is called by another goroutine: that of another
// request, or of [LoadLimit.CutOffOverdue].
func (r *Request) abort() {
	if c := ConnectionOf(r.http().Context()); c != nil && c.CutOff(r.http().ProtoMajor > 1) {
		return
	}
	_ = http.NewResponseController(r.writer()).SetWriteDeadline(time.Unix(1, 0))
}

// tokenID returns the id of the request's token, or "" if it is anonymous.
func (r *Request) tokenID() string {
	if r.principal == nil {
		return ""
	}
	return r.principal.TokenID
}

// logCutOff logs a response that was cut off.
func (r *Request) logCutOff(cause string, from netip.Addr, took time.Duration) {
	o := &r.gateway.options
	if !allows(o.Lines.CutOff, cause) {
		return
	}
	attrs := []slog.Attr{
		slog.String("cause", cause), slog.String("route", r.route.ID), slog.String("request_id", r.id),
		slog.Int64("bytes", r.unwritten.bytes), slog.Int64("lasted_ms", took.Milliseconds()),
		slog.String("client", from.String()),
	}
	if r.principal != nil {
		attrs = append(attrs, slog.String("team_id", r.principal.TeamID), slog.String("token_id", r.principal.TokenID))
	}
	o.Logger.LogAttrs(r.ctx, slog.LevelWarn, "response cut off", attrs...)
}
