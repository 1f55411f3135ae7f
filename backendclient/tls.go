package backendclient

import (
	"context"
	"log/slog"
	"net"

	"google.golang.org/grpc/credentials"

	"opsgate/backendclient/tlsfiles"
)

// fileCredentials secure each connection by what files say when it is made: certificates are renewed while gateways run.
type fileCredentials struct {
	credentials.TransportCredentials // of the start, for what does not depend on the files' contents

	files *tlsfiles.Reloader
}

func newFileCredentials(files tlsfiles.Files, logger *slog.Logger) (*fileCredentials, error) {
	kept, err := tlsfiles.NewReloader(files, logger)
	if err != nil {
		return nil, err
	}
	return &fileCredentials{TransportCredentials: credentials.NewTLS(kept.Config(context.Background())), files: kept}, nil
}

// ClientHandshake implements [credentials.TransportCredentials].
func (c *fileCredentials) ClientHandshake(ctx context.Context, authority string, connection net.Conn) (
	net.Conn, credentials.AuthInfo, error,
) {
	return credentials.NewTLS(c.files.Config(ctx)).ClientHandshake(ctx, authority, connection)
}

// Clone implements [credentials.TransportCredentials].
func (c *fileCredentials) Clone() credentials.TransportCredentials {
	clone := *c
	return &clone
}
