package wiring

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"time"

	"opsgate/cmd/internal/gate/config"
	"opsgate/cmd/internal/kit/buildinfo"
)

// Options are the options of [Listen]. Loaded and Logger are required.
type Options struct {
	Loaded config.Loaded
	// Load reads the configuration again from the sources of Loaded; nil disables reloads.
	Load func() (config.Loaded, error)
	// ReloadSignals trigger a reload. A change of a file triggers one too.
	ReloadSignals <-chan os.Signal
	// LogLevel is the level of Logger, set from the configuration; nil for a fixed level.
	LogLevel  *slog.LevelVar
	Logger    *slog.Logger
	Build     buildinfo.Info
	Clock     func() time.Time // wall clock; nil for time.Now
	Lifecycle Lifecycle        // nil for none
	// Listener is the bound public listener, closed with the gateway; nil to bind the address of Loaded.
	Listener *net.TCPListener
	// Wrap wraps the handler of the public listener; nil for none.
	Wrap func(http.Handler) http.Handler
}

// An Edge is a gateway with its listeners.
type Edge struct {
	version   string // of the program
	logger    *slog.Logger
	lifecycle Lifecycle
	parts     *parts
	reloader  *reloader
	public    *server
	admin     *server
}

// Listen builds a gateway and binds its listeners; connections wait until Run is called. It fails if an address is in use, the
// configuration is invalid, or Options.Listener has another address than the configured one, and then releases what it has opened. It does
// not wait for the internal services.
func Listen(ctx context.Context, o Options) (_ *Edge, err error) {
	if o.Clock == nil {
		o.Clock = time.Now
	}
	if o.Lifecycle == nil {
		o.Lifecycle = noopLifecycle{}
	}
	e := &Edge{version: o.Build.Version, logger: o.Logger, lifecycle: o.Lifecycle}
	if e.parts, err = build(o); err != nil {
		return nil, fmt.Errorf("build the gateway: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, e.Close())
		}
	}()
	if err := e.bind(ctx, o); err != nil {
		return nil, err
	}
	e.reloader = &reloader{
		load: o.Load, signals: o.ReloadSignals, parts: e.parts, level: o.LogLevel, logger: e.parts.logLimits.reloads, clock: o.Clock,
		lifecycle: o.Lifecycle,
	}
	return e, nil
}

// bind binds the listeners.
func (e *Edge) bind(ctx context.Context, o Options) error {
	publicTLS, err := newPublicTLS(o.Loaded.TLS, e.parts.logLimits.dependencies, e.parts.registry)
	if err != nil {
		return err
	}
	adminTLS, err := newAdminTLS(o.Loaded.Admin.TLS, e.parts.logLimits.dependencies, e.parts.registry)
	if err != nil {
		return err
	}
	handler := http.Handler(e.parts)
	if o.Wrap != nil {
		handler = o.Wrap(handler)
	}
	e.public, err = newServer(ctx, serverOptions{
		name: "public", address: o.Loaded.Listen, bound: o.Listener, handler: handler, limits: publicLimits(o.Loaded.HTTP), tls: publicTLS,
		errors:      e.parts.logLimits.connections.Handler(o.Logger.Handler()),
		connections: e.parts.connections,
	})
	if err != nil {
		return err
	}
	e.admin, err = newServer(ctx, serverOptions{
		name: "admin", address: o.Loaded.Admin.Listen, handler: e.parts.admin, limits: adminLimits(), tls: adminTLS,
		errors:      e.parts.logLimits.adminErrors.Handler(o.Logger.Handler()),
		connections: e.parts.adminConnections,
	})
	if err != nil {
		return err
	}
	e.parts.fleet.bound(e.AdminAddress())
	return nil
}

// Close releases the resources of Listen. It is for callers that do not call Run.
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
