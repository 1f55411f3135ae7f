package backendclient

import (
	"context"
	"log/slog"
	"net"

	"google.golang.org/grpc/credentials"

	"opsgate/internal/certs"
)

// fileCredentials uses the current contents of TLS files for each new connection, as certificates
// are renewed while the gateway runs.
type fileCredentials struct {
	credentials.TransportCredentials // the initial credentials, for the methods that do not depend on the files

	files *certs.Reloader
}

func newFileCredentials(files certs.ClientFiles, logger *slog.Logger) (*fileCredentials, error) {
	reloader, err := files.Reloader(logger)
	if err != nil {
		return nil, err
	}
	return &fileCredentials{TransportCredentials: credentials.NewTLS(reloader.Config(context.Background())),
		files: reloader}, nil
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
