package gateway

import (
	"context"

	"opsgate/gateway/responses"
)

// A Connection is the client connection of a request; cmd/internal/gate/httpserver implements it. A
// server with too many connections first closes idle ones: those that serve no authenticated
// request. The methods are safe for concurrent use.
type Connection interface {
	// MarkBusy marks the connection as serving an authenticated request until MarkIdle is called.
	// Each call of MarkBusy is followed by one call of MarkIdle.
	MarkBusy()
	MarkIdle()
	responses.Connection
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

// MarkBusy marks the connection in ctx as busy, and returns the connection, whose MarkIdle the
// caller must call. It returns nil if ctx has no connection.
func MarkBusy(ctx context.Context) Connection {
	c := ConnectionOf(ctx)
	if c != nil {
		c.MarkBusy()
	}
	return c
}

// markIdle marks the connection as idle if the request marked it as busy. It is idempotent.
func (r *Request) markIdle() {
	if r.busy != nil {
		r.busy.MarkIdle()
		r.busy = nil
	}
}
