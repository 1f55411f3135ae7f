package gateway

import "context"

// A Connection is the client connection that requests arrive on, as far as a server must know which of them are worth keeping open.
// Its methods are safe for concurrent use.
type Connection interface {
	// Acquire marks the connection as serving an authenticated request, until Release. Both are called once for each such request.
	Acquire()
	Release()
}

type connectionKey struct{}

// WithConnection returns a context for the requests of a connection ([net/http.Server.ConnContext]).
func WithConnection(ctx context.Context, c Connection) context.Context {
	return context.WithValue(ctx, connectionKey{}, c)
}

// AcquireConnection marks the connection of a request as serving an authenticated one, and returns it to be released. It returns nil
// for a request of a server that keeps no account of its connections.
func AcquireConnection(ctx context.Context) Connection {
	c, ok := ctx.Value(connectionKey{}).(Connection)
	if !ok {
		return nil
	}
	c.Acquire()
	return c
}
