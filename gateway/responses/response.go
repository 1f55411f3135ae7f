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
	// MaxImplicitLength is the size of a body up to which net/http buffers an HTTP/1.1 response
	// until the handler has returned, and adds the Content-Length itself.
	MaxImplicitLength = 2 << 10
	// maxBuffered is the size of a body up to which a response without TLS is buffered, to be sent
	// with one write: net/http alone writes each 4 KiB.
	maxBuffered = 32 << 10

	// responseCost is accounted for each response beside its body: the stack of its goroutine, the
	// stream and the writer of net/http.
	responseCost = 16 << 10
	// socketCost is the most that is accounted for a shared body: its copy in the socket.
	socketCost = 128 << 10

	// maxPooledBytes is the size of the largest buffer that Reset keeps.
	maxPooledBytes = 1 << 20
	// maxUnusedBytes limits the buffers of a response while it is written: if they are larger than
	// twice the body plus maxUnusedBytes, the body is copied and they are dropped.
	maxUnusedBytes = 256 << 10

	// anonymousWriteTimeout is the time to write a response of at most maxSmallBytes to an
	// anonymous request. It is enough for a client that reads at all, because the buffers of its
	// connection hold so much.
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
	// CutOff closes a connection whose client does not read a response, and returns true.
	// Exception: an HTTP/2 connection that serves an authenticated request stays open, because
	// other streams share it. Then CutOff returns false, and the caller must reset its own stream;
	// if not even the reset can be written, the server closes the connection.
	CutOff(http2 bool) (closed bool)
	// WriteAtOnce buffers the response that a function writes, and then sends it with one write. It
	// returns the error of either. The request must have come over HTTP/1.1 without TLS: with
	// HTTP/2 or TLS, other goroutines write to the connection too.
	WriteAtOnce(write func() error) error
}

// A Recipient is the client that a response is sent to.
type Recipient interface {
	ClientAddr() netip.Addr
	TokenID() string        // "" if its request is anonymous
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
	pending    pending      // while it is written
}

// NewResponse returns a Response without a request.
func (s *Sender) NewResponse() *Response { return &Response{sender: s} }

// Begin makes r the response to a request.
func (r *Response) Begin(w gin.ResponseWriter, req *http.Request, to Recipient) {
	r.writer, r.request, r.recipient = w, req, to
}

// Reset empties r and keeps its buffers. It returns false if they are too large to be kept.
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
	Bytes  int64 // the memory that was accounted for it
	After  time.Duration
}

// Send writes the status, the headers that the writer has, and a body. A shared body is in memory
// that outlives the response. Send accounts the response until it is written, except for one that
// net/http buffers: a connection has at most one of those.
func (r *Response) Send(status int, body []byte, shared bool) Cut {
	r.writer.WriteHeader(status)
	if r.request.ProtoMajor == 1 && (len(body) <= MaxImplicitLength || r.request.Method == http.MethodHead) {
		_ = r.writeBody(body) // fails only if the client has disconnected
		return Cut{}
	}
	// The client has reset the HTTP/2 stream: accounting this response could cut off others for
	// nothing. Over HTTP/1.1, the client may have closed only its sending side and still read.
	if r.request.ProtoMajor > 1 && r.request.Context().Err() != nil {
		return Cut{}
	}
	from, began := r.recipient.ClientAddr(), r.sender.clock()
	// Hundreds of small headers take more memory than all else that a stream holds. net/http does
	// not read them any more.
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
	// After an error, an HTTP/2 connection may still read the body: its buffer must not be reused.
	r.dropBuffers()
	if cause == "" && errors.Is(err, os.ErrDeadlineExceeded) { // the server's write timeout ended the write, not abort
		cause = cutDeadline
		r.sender.unwritten.count(cause)
	}
	return Cut{Cause: cause, Client: from, Bytes: r.pending.bytes, After: r.sender.clock().Sub(began)}
}

// account sets the memory of the response until it is written. It returns the body, in a copy if
// the buffers are much larger: a client that reads slowly must not hold them.
func (r *Response) account(body []byte, shared bool) []byte {
	outside := 0 // memory of the body that is in no buffer of r
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

// write writes the header and the body to the connection. It flushes, because what net/http writes
// after the handler has returned can neither be cut off nor accounted.
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

// writesAtOnce reports whether the connection buffers the response. Without TLS the request came
// over HTTP/1.1, as WriteAtOnce requires, because the server has HTTP/2 only with TLS.
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

// abort makes a write of the response return. It is called by another goroutine: that of another
// request, or of [Unwritten.CutOffOverdue].
func (r *Response) abort() {
	if c := r.recipient.Connection(); c != nil && c.CutOff(r.request.ProtoMajor > 1) {
		return
	}
	_ = http.NewResponseController(r.netHTTPWriter()).SetWriteDeadline(time.Unix(1, 0))
}

// netHTTPWriter returns the writer of net/http below Gin's: a ResponseController would use Gin's
// Flush, which returns no error.
func (r *Response) netHTTPWriter() http.ResponseWriter {
	if gin, ok := r.writer.(interface{ Unwrap() http.ResponseWriter }); ok {
		return gin.Unwrap()
	}
	return r.writer
}
