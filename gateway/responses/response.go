package responses

import (
	"bytes"
	"errors"
	"net/http"
	"net/netip"
	"os"
	"sync"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/klauspost/compress/gzip"

	"opsgate/gateway/jsonw"
	"opsgate/internal/netaddr"
)

const (
	// MaxImplicitLength is the size of the largest body for which net/http buffers an HTTP/1.1
	// response until the handler has returned, and adds the Content-Length itself.
	MaxImplicitLength = 2 << 10
	// maxBuffered is the size of the largest body for which a response without TLS is buffered and
	// sent with one write. net/http alone makes a write for each 4 KiB.
	maxBuffered = 32 << 10

	// responseCost is accounted for each response in addition to its body: for the stack of its
	// goroutine, and the stream and the writer of net/http.
	responseCost = 16 << 10
	// socketCost is the maximum that is accounted for a shared body: the part that the socket
	// buffers.
	socketCost = 128 << 10

	// maxPooledBytes is the size of the largest buffer that Reset keeps.
	maxPooledBytes = 1 << 20
	// maxUnusedBytes limits the buffers of a response while it is written. If the buffers are
	// larger than twice the body plus maxUnusedBytes, the body is copied and the buffers are
	// dropped.
	maxUnusedBytes = 256 << 10

	// anonymousWriteTimeout is the time to write a response to an anonymous request, if the body
	// has at most maxSmallBytes. The time is sufficient for every client that reads, because the
	// buffers of its connection hold maxSmallBytes.
	anonymousWriteTimeout = 5 * time.Second
	maxSmallBytes         = 64 << 10
)

// A Sender sends the responses of a Gateway.
type Sender struct {
	unwritten   *Unwritten
	clock       func() time.Time
	gzipWriters sync.Pool // of *gzip.Writer
}

// NewSender returns a Sender whose responses are accounted in u.
func NewSender(u *Unwritten, clock func() time.Time) *Sender {
	s := &Sender{unwritten: u, clock: clock}
	s.gzipWriters.New = func() any { return gzip.NewWriter(nil) }
	return s
}

// A Connection is the client connection of a request. The methods are safe for concurrent use.
type Connection interface {
	// CutOff closes a connection whose client does not read a response, and returns true. An HTTP/2
	// connection that serves an authenticated request stays open, because other streams share the
	// connection. Then CutOff returns false, and the caller must reset its own stream. If not even
	// the reset can be written, the server closes the connection.
	CutOff(http2 bool) (closed bool)
	// WriteAtOnce buffers the response that a function writes, and then sends the buffer with one
	// write. It returns the error of the function or of the write. The request must have arrived
	// over HTTP/1.1 without TLS: with HTTP/2 or TLS, other goroutines write to the connection too.
	WriteAtOnce(write func() error) error
}

// A Recipient is the client that a response is sent to.
type Recipient interface {
	ClientAddr() netip.Addr
	TokenID() string        // "" if the request is anonymous
	Connection() Connection // nil if the server does not track connections
}

// A Response is the response to one request. Reset prepares it for another request.
type Response struct {
	JSON jsonw.Writer // buffer for a body that is made for this response

	sender     *Sender
	writer     gin.ResponseWriter
	request    *http.Request
	recipient  Recipient
	compressed bytes.Buffer // the body with gzip
	pending    pending      // while the response is written
}

// NewResponse returns a Response without a request.
func (s *Sender) NewResponse() *Response { return &Response{sender: s} }

// Begin makes r the response to a request.
func (r *Response) Begin(w gin.ResponseWriter, req *http.Request, to Recipient) {
	r.writer, r.request, r.recipient = w, req, to
}

// Reset empties r for another request. It returns false if the buffers are too large to be reused.
func (r *Response) Reset() (reusable bool) {
	r.writer, r.request, r.recipient, r.pending.aborter = nil, nil, nil, nil
	r.JSON.Reset()
	r.compressed.Reset()
	return r.JSON.Cap() <= maxPooledBytes && r.compressed.Cap() <= maxPooledBytes
}

// Gzip returns the body compressed with gzip, in a buffer of the response.
func (r *Response) Gzip(body []byte) []byte {
	w, _ := r.sender.gzipWriters.Get().(*gzip.Writer)
	defer r.sender.gzipWriters.Put(w)
	r.compressed.Reset()
	w.Reset(&r.compressed)
	_, _ = w.Write(body) // a bytes.Buffer returns no error
	_ = w.Close()
	return r.compressed.Bytes()
}

// A Cut states why and when a response was cut off.
type Cut struct {
	Cause  string // "" if the response was not cut off
	Client netip.Addr
	Bytes  int64 // the memory that was accounted for the response
	After  time.Duration
}

// Send writes the status, the headers that the writer has, and a body. shared states that the body
// is in memory that outlives the response. Send accounts the response until it is written. It does
// not account a response that net/http buffers, because a connection has at most one such response.
func (r *Response) Send(status int, body []byte, shared bool) Cut {
	r.writer.WriteHeader(status)
	if r.request.ProtoMajor == 1 && (len(body) <= MaxImplicitLength || r.request.Method == http.MethodHead) {
		_ = r.writeBody(body) // fails only if the client has disconnected
		return Cut{}
	}
	// The client has reset the HTTP/2 stream, so it will not read: do not cut off other responses
	// for this one. Over HTTP/1.1, the client may have closed only its sending side and still read.
	if r.request.ProtoMajor > 1 && r.request.Context().Err() != nil {
		return Cut{}
	}
	from, began := r.recipient.ClientAddr(), r.sender.clock()
	// Release the request's headers, which net/http does not read any more: hundreds of small ones
	// take more memory than the rest of a stream.
	r.request.Header = nil
	body = r.account(body, shared)
	tokenID := r.recipient.TokenID()
	if tokenID == "" && len(body) <= maxSmallBytes {
		r.pending.deadline = began.Add(anonymousWriteTimeout)
	}
	r.sender.unwritten.begin(&r.pending, clientKey{netaddr.SiteOf(from), tokenID})
	err := r.write(body)
	cause := r.sender.unwritten.end(&r.pending)
	if err == nil {
		return Cut{}
	}
	// After an error, an HTTP/2 connection may still read the body, so the buffers must not be
	// reused.
	r.dropBuffers()
	if cause == "" && errors.Is(err, os.ErrDeadlineExceeded) { // the server's write timeout ended the write, not abort
		cause = cutDeadline
		r.sender.unwritten.count(cause)
	}
	return Cut{Cause: cause, Client: from, Bytes: r.pending.bytes, After: r.sender.clock().Sub(began)}
}

// account computes the memory of the response while it is written, and sets r.pending. It returns
// the body. If the buffers are much larger than the body, it returns a copy and drops the buffers,
// so that a client that reads slowly does not hold them.
func (r *Response) account(body []byte, shared bool) []byte {
	outside := 0 // memory of the body outside of the buffers of r
	if shared {
		outside = min(len(body), socketCost)
	}
	if r.JSON.Cap()+r.compressed.Cap() > 2*len(body)+maxUnusedBytes {
		if !shared {
			body, outside = bytes.Clone(body), len(body)
		}
		r.dropBuffers()
	}
	if r.writesAtOnce(body) {
		outside += len(body)
	}
	cost := responseCost + len(r.request.RequestURI) + r.JSON.Cap() + r.compressed.Cap() + outside
	r.pending = pending{bytes: int64(cost), aborter: r}
	return body
}

func (r *Response) dropBuffers() { r.JSON, r.compressed = jsonw.Writer{}, bytes.Buffer{} }

// write writes the header and the body to the connection, and flushes. Otherwise net/http would
// write a rest after the handler has returned, which could neither be cut off nor accounted.
func (r *Response) write(body []byte) error {
	write := func() error {
		if err := r.writeBody(body); err != nil {
			return err
		}
		return http.NewResponseController(r.netHTTPWriter()).Flush()
	}
	if r.writesAtOnce(body) {
		return r.recipient.Connection().WriteAtOnce(write)
	}
	return write()
}

// writesAtOnce reports whether write uses WriteAtOnce, which requires HTTP/1.1 without TLS. A
// request without TLS arrived over HTTP/1.1, because the server has HTTP/2 only with TLS.
func (r *Response) writesAtOnce(body []byte) bool {
	return r.request.TLS == nil && len(body) <= maxBuffered && r.recipient.Connection() != nil
}

// writeBody writes the header and the body in one write. net/http drops the body of a response to
// HEAD.
func (r *Response) writeBody(body []byte) error {
	if len(body) == 0 {
		r.writer.WriteHeaderNow()
		return nil
	}
	_, err := r.writer.Write(body)
	return err
}

// abort makes a write of the response return. Another goroutine calls it: the goroutine of a newer
// request, or the one that calls [Unwritten.CutOffOverdue].
func (r *Response) abort() {
	if c := r.recipient.Connection(); c != nil && c.CutOff(r.request.ProtoMajor > 1) {
		return
	}
	_ = http.NewResponseController(r.netHTTPWriter()).SetWriteDeadline(time.Unix(1, 0))
}

// netHTTPWriter returns the writer of net/http, which Gin's writer wraps. With Gin's writer, a
// ResponseController would call Gin's Flush, which returns no error.
func (r *Response) netHTTPWriter() http.ResponseWriter {
	if gin, ok := r.writer.(interface{ Unwrap() http.ResponseWriter }); ok {
		return gin.Unwrap()
	}
	return r.writer
}
