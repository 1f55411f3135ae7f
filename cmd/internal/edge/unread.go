package edge

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"time"
)

// closeUnread answers a request before its body has been read, and then closes the connection. By default net/http reads the body first: a
// client that announces a body and sends none would delay the answer, and hold the connection, without limit. HTTP/2 needs none of this: it
// resets the stream.
//
// timeout bounds the reading of a body, and what the handler does after that; 0 is no bound. The server's ReadTimeout is not used, because
// it also cancels requests without a body that take longer to answer.
func closeUnread(next http.Handler, timeout time.Duration) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength == 0 || r.ProtoMajor != 1 {
			next.ServeHTTP(w, r)
			return
		}
		watched := &watchedBody{ResponseWriter: w, body: r.Body}
		r.Body = watched
		if timeout > 0 {
			_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(timeout)) // fails where the client is gone
		}
		next.ServeHTTP(watched, r)
		if !watched.complete {
			watched.linger()
		}
	})
}

// watchedBody wraps the body and the writer of one request: the header of the answer depends on whether the body was read to its end.
type watchedBody struct {
	http.ResponseWriter

	body        io.ReadCloser
	complete    bool
	wroteHeader bool
}

// Read implements [io.Reader].
func (b *watchedBody) Read(p []byte) (int, error) {
	n, err := b.body.Read(p)
	b.complete = b.complete || errors.Is(err, io.EOF)
	return n, err
}

// Close implements [io.Closer].
func (b *watchedBody) Close() error { return b.body.Close() }

// WriteHeader implements [http.ResponseWriter].
func (b *watchedBody) WriteHeader(status int) {
	if !b.complete {
		b.Header().Set("Connection", "close") // net/http then sends the header without reading the body
	}
	b.wroteHeader = true
	b.ResponseWriter.WriteHeader(status)
}

// Write implements [http.ResponseWriter].
func (b *watchedBody) Write(p []byte) (int, error) {
	if !b.wroteHeader {
		b.WriteHeader(http.StatusOK)
	}
	return b.ResponseWriter.Write(p)
}

// Unwrap returns the writer for [http.ResponseController].
func (b *watchedBody) Unwrap() http.ResponseWriter { return b.ResponseWriter }

// linger makes net/http half-close the connection and wait half a second before it closes it. If it were closed at once while bytes of the
// body arrive, the kernel would send a reset, and many clients would lose the answer (RFC 9112, section 9.6).
func (b *watchedBody) linger() {
	_ = http.NewResponseController(b.ResponseWriter).SetReadDeadline(time.Unix(1, 0))
	// net/http does that after a MaxBytesReader has been exceeded, and there is no other way to ask for it.
	tooLarge := http.MaxBytesReader(b.ResponseWriter, io.NopCloser(strings.NewReader("x")), 0)
	_, _ = tooLarge.Read(make([]byte, 1))
}
