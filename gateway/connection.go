package gateway

import "context"

// A Connection is the client connection of a request. A server with too many connections first
// closes those that serve no authenticated request. The methods are safe for concurrent use.
type Connection interface {
	// MarkBusy marks the connection as serving an authenticated request until MarkIdle is called.
	// Each such request calls both once.
	MarkBusy()
	MarkIdle()
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

type connectionKey struct{}

// WithConnection returns the context for the requests of a connection
// ([net/http.Server.ConnContext]).
func WithConnection(ctx context.Context, c Connection) context.Context {
	return context.WithValue(ctx, connectionKey{}, c)
}

// ConnectionOf returns the connection in ctx, or nil if there is none.
func ConnectionOf(ctx context.Context) Connection {
	c, _ := ctx.Value(connectionKey{}).(Connection)
	return c
}

// MarkBusy calls MarkBusy of the connection in ctx, and returns it for MarkIdle. It returns nil if
// there is none.
func MarkBusy(ctx context.Context) Connection {
	c := ConnectionOf(ctx)
	if c != nil {
		c.MarkBusy()
	}
	return c
}

// markIdle marks the connection of an authenticated request as idle.
func (r *Request) markIdle() {
	if r.connection != nil {
		r.connection.MarkIdle()
		r.connection = nil
	}
}
