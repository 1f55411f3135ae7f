package gateway

import (
	"bytes"
	"errors"
	"log/slog"
	"net/http"
	"net/netip"
	"os"
	"time"

	"opsgate/authn"
	"opsgate/gateway/jsonw"
)

const (
	// responseCost is accounted for each unwritten response beside its buffers: the stack of its goroutine, the stream and the writer of
	// net/http.
	responseCost = 16 << 10
	// socketCost is the most that is accounted for a body that responses share: only its copy in the socket takes memory.
	socketCost = 128 << 10
	// maxUnusedBytes is how much larger than twice the body the buffers of a request may be before trim drops them.
	maxUnusedBytes = 256 << 10

	// anonymousWriteTimeout is the time to write a response to an anonymous request whose body has at most maxSmallBytes. If the client
	// reads at all, such a response fits into the buffers of its connection.
	anonymousWriteTimeout = 5 * time.Second
	maxSmallBytes         = 64 << 10

	// maxBuffered is the size of a body up to which a response without TLS is buffered, to be sent with one write.
	maxBuffered = 32 << 10
)

// send writes the response that respond has made, and accounts its memory until it is written. It does not account an HTTP/1.1 response
// that net/http buffers and writes after the handler: a connection has at most one of those.
func (r *Request) send(info responseInfo) {
	req := r.http()
	r.gin.Writer.WriteHeader(info.status)
	if req.ProtoMajor == 1 && (len(info.body) <= maxImplicitLength || req.Method == http.MethodHead) {
		_ = r.writeBody(info.body) // fails only if the client has disconnected
		return
	}
	// The client has reset the HTTP/2 stream: accounting this response could cut off others for nothing. Over HTTP/1.1, the client may have
	// closed only its sending side and still read.
	if req.ProtoMajor > 1 && r.clientGone() {
		return
	}
	from, began := r.ClientAddr(), r.gateway.options.Clock()
	// Hundreds of small headers take more memory than all else that a stream holds. net/http does not read them any more.
	req.Header = nil
	r.trim(&info)
	r.pending = pendingResponse{bytes: r.cost(info), write: r}
	if r.principal == nil && len(info.body) <= maxSmallBytes {
		r.pending.deadline = began.Add(anonymousWriteTimeout)
	}
	unwritten := r.gateway.options.LoadLimit.unwritten
	unwritten.begin(&r.pending, origin{authn.SiteOf(from), r.tokenID()})
	err := r.writeAll(info.body)
	cause := unwritten.end(&r.pending)
	if err == nil {
		return
	}
	// After an error, an HTTP/2 connection may still read the body: its buffer must not be reused.
	r.out, r.compressed = jsonw.Writer{}, bytes.Buffer{}
	if cause == "" && errors.Is(err, os.ErrDeadlineExceeded) { // the server's write timeout ended the write, not abort
		cause = cutDeadline
		unwritten.count(cause)
	}
	if cause != "" {
		r.logCutOff(cause, from, r.gateway.options.Clock().Sub(began))
	}
}

// writer returns the writer of net/http. Gin's Flush returns no error.
func (r *Request) writer() http.ResponseWriter {
	if gin, ok := r.gin.Writer.(interface{ Unwrap() http.ResponseWriter }); ok {
		return gin.Unwrap()
	}
	return r.gin.Writer
}

// writeAll writes the header and the body to the connection. It flushes, because what net/http writes after the handler has returned can
// neither be cut off nor accounted.
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

// bufferingConnection returns the connection if it buffers the response (WriteAtOnce), else nil. By itself, net/http writes after 4 KiB.
func (r *Request) bufferingConnection(body []byte) Connection {
	if r.http().TLS != nil || len(body) > maxBuffered {
		return nil
	}
	return ConnectionOf(r.http().Context())
}

// writeBody writes the header and the body in one write. net/http drops the body of a response to HEAD.
func (r *Request) writeBody(body []byte) error {
	if len(body) == 0 {
		r.gin.Writer.WriteHeaderNow()
		return nil
	}
	_, err := r.gin.Writer.Write(body)
	return err
}

// trim drops the buffers of the request if they are much larger than the body, so that a client that reads slowly does not hold them.
func (r *Request) trim(info *responseInfo) {
	if r.out.Cap()+r.compressed.Cap() <= 2*len(info.body)+maxUnusedBytes {
		return
	}
	if info.unpooledBytes == 0 {
		info.body = bytes.Clone(info.body)
		info.unpooledBytes = len(info.body)
	}
	r.out, r.compressed = jsonw.Writer{}, bytes.Buffer{}
}

// cost returns the memory of a response until it is written.
func (r *Request) cost(info responseInfo) int64 {
	bytes := responseCost + len(r.http().RequestURI) + r.out.Cap() + r.compressed.Cap() + info.unpooledBytes
	if r.bufferingConnection(info.body) != nil {
		bytes += len(info.body)
	}
	return int64(bytes)
}

// abort makes a write of the response return. It is called by the goroutine of another request.
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
		slog.Int64("bytes", r.pending.bytes), slog.Int64("lasted_ms", took.Milliseconds()), slog.String("client", from.String()),
	}
	if r.principal != nil {
		attrs = append(attrs, slog.String("team_id", r.principal.TeamID), slog.String("token_id", r.principal.TokenID))
	}
	o.Logger.LogAttrs(r.ctx, slog.LevelWarn, "response cut off", attrs...)
}
