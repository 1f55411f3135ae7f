package edge

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"

	"opsgate/cmd/internal/buildinfo"
	"opsgate/cmd/internal/config"
)

// Options are what an Edge is made of.
type Options struct {
	Config config.Config
	Logger *slog.Logger
	Build  buildinfo.Info
}

// An Edge is a gateway with its listeners.
type Edge struct {
	logger   *slog.Logger
	shutdown config.Shutdown
	parts    *parts
	public   *server
	admin    *server
}

// Listen builds a gateway and binds its listeners; connections wait until Run serves them. It fails when an address is taken or
// the configuration makes no gateway, and then leaves nothing behind. The internal services need not be there.
func Listen(ctx context.Context, o Options) (_ *Edge, err error) {
	e := &Edge{logger: o.Logger, shutdown: o.Config.Shutdown}
	if e.parts, err = build(o); err != nil {
		return nil, fmt.Errorf("build the gateway: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, e.Close())
		}
	}()
	if e.public, err = newServer(ctx, "public", o.Config.Listen, publicServer(o, e.parts.gateway)); err != nil {
		return nil, err
	}
	if e.admin, err = newServer(ctx, "admin", o.Config.Admin.Listen, adminServer(o, e.parts.admin)); err != nil {
		return nil, err
	}
	return e, nil
}

// Close lets go of what Listen made, for those who do not come to call Run.
func (e *Edge) Close() error {
	var errs []error
	for _, s := range []*server{e.public, e.admin} {
		if s != nil {
			errs = append(errs, s.listener.Close())
		}
	}
	return errors.Join(append(errs, e.parts.close())...)
}

// Address returns the address of the public API, with the port in use.
func (e *Edge) Address() net.Addr { return e.public.listener.Addr() }

// AdminAddress returns the address of the admin listener, with the port in use.
func (e *Edge) AdminAddress() net.Addr { return e.admin.listener.Addr() }
