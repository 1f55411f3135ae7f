package backendclient

import (
	"context"

	"google.golang.org/grpc"
)

// A connectionUnder is a connection whose calls are made under certain settings. The connection itself is shared by all settings.
type connectionUnder struct {
	connection *grpc.ClientConn
	options    []grpc.CallOption // of every call; it has no room to grow, as calls append to it
}

var _ grpc.ClientConnInterface = connectionUnder{}

// A generation is settings, and how many came before them on the same connections.
type generation struct {
	Settings

	number uint64
}

// callOptions returns what carries the settings to the wire: the library's own options, and the settings for our interceptors.
func (g *generation) callOptions() []grpc.CallOption {
	return []grpc.CallOption{grpc.MaxCallRecvMsgSize(g.MaxResponseBytes), underSettings{settings: g}}
}

// Invoke implements [grpc.ClientConnInterface].
func (c connectionUnder) Invoke(ctx context.Context, method string, request, reply any, options ...grpc.CallOption) error {
	return c.connection.Invoke(ctx, method, request, reply, append(c.options, options...)...)
}

// NewStream implements [grpc.ClientConnInterface].
func (c connectionUnder) NewStream(
	ctx context.Context, description *grpc.StreamDesc, method string, options ...grpc.CallOption,
) (grpc.ClientStream, error) {
	return c.connection.NewStream(ctx, description, method, append(c.options, options...)...)
}

// underSettings tells the interceptors which settings a call is made under.
type underSettings struct {
	grpc.EmptyCallOption
	settings *generation
}

// settingsOf returns the settings that a call is made under.
func settingsOf(options []grpc.CallOption) *generation {
	for _, option := range options {
		if under, ok := option.(underSettings); ok {
			return under.settings
		}
	}
	panic("backendclient: a call that no client of ours makes") // calls of ours go through a connectionUnder
}
