package gateway

import (
	"context"

	"opsgate/gateway/responses"
)

// A Connection is the client connection of a request. A server with too many connections first
// closes those that serve no authenticated request. The methods are safe for concurrent use.
type Connection interface {
	// MarkBusy marks the connection as serving an authenticated request until MarkIdle is called.
	// Each such request calls both once.
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

// MarkBusy calls MarkBusy of the connection in ctx, and returns it for MarkIdle. It returns nil if
// there is none.
func MarkBusy(ctx context.Context) Connection {
	c := ConnectionOf(ctx)
	if c != nil {
		c.MarkBusy()
	}
	return c
}

func (r *Request) markIdle() {
	if r.busy != nil {
		r.busy.MarkIdle()
		r.busy = nil
	}
}
