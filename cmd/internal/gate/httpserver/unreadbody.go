package httpserver

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"time"
)

// closeAfterUnreadBody closes the connection after a response if the request's body was not read to
// its end. By default net/http reads the rest of the body before it sends the response, so a client
// that announces a body and sends none would occupy the connection without limit. Over HTTP/2,
// net/http resets the stream instead.
//
// timeout is the time for a body to arrive; 0 for no limit. The server's ReadTimeout cannot replace
// it, because it begins with the header and includes the time until the handler reads the body.
func closeAfterUnreadBody(next http.Handler, timeout time.Duration) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength == 0 || r.ProtoMajor != 1 {
			next.ServeHTTP(w, r)
			return
		}
		tracker := &bodyTracker{ResponseWriter: w, body: r.Body}
		r.Body = tracker
		if timeout > 0 {
			// fails if the client has closed the connection
			_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(timeout))
		}
		next.ServeHTTP(tracker, r)
		if !tracker.complete {
			tracker.linger()
		}
	})
}

// bodyTracker is both the body and the response writer of a request. It adds Connection: close to
// the response unless the body was read to its end.
type bodyTracker struct {
	http.ResponseWriter

	body        io.ReadCloser
	complete    bool // the body was read to its end
	wroteHeader bool
}

// Read implements [io.Reader].
func (b *bodyTracker) Read(p []byte) (int, error) {
	n, err := b.body.Read(p)
	b.complete = b.complete || errors.Is(err, io.EOF)
	return n, err
}

// Close implements [io.Closer].
func (b *bodyTracker) Close() error { return b.body.Close() }

// WriteHeader implements [http.ResponseWriter].
func (b *bodyTracker) WriteHeader(status int) {
	if !b.complete {
		b.Header().Set("Connection", "close") // net/http then sends the header without reading the body
	}
	b.wroteHeader = true
	b.ResponseWriter.WriteHeader(status)
}

// Write implements [http.ResponseWriter].
func (b *bodyTracker) Write(p []byte) (int, error) {
	if !b.wroteHeader {
		b.WriteHeader(http.StatusOK)
	}
	return b.ResponseWriter.Write(p)
}

// Unwrap returns the writer for [http.ResponseController].
func (b *bodyTracker) Unwrap() http.ResponseWriter { return b.ResponseWriter }

// linger makes net/http half-close the connection and wait half a second before it closes the
// connection. A close while bytes of the body arrive would make the kernel send a reset, after
// which many clients lose the response (RFC 9112, section 9.6).
func (b *bodyTracker) linger() {
	// With this deadline in the past, net/http does not wait for up to 256 KiB of the body.
	_ = http.NewResponseController(b.ResponseWriter).SetReadDeadline(time.Unix(1, 0))
	// net/http lingers after the limit of a MaxBytesReader was exceeded. It has no other API to
	// request that.
	tooLarge := http.MaxBytesReader(b.ResponseWriter, io.NopCloser(strings.NewReader("x")), 0)
	_, _ = tooLarge.Read(make([]byte, 1))
}
