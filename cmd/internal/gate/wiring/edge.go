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
	handler   http.Handler // of the public listener
}

// Listen builds a gateway and binds its listeners; connections wait until Run is called. It fails if an address is in use, the
// configuration is invalid, or Options.Listener has another address than the configured one, and then releases what it has opened. It does
// not wait for the internal services.
func Listen(ctx context.Context, o Options) (*Edge, error) {
	if o.Clock == nil {
		o.Clock = time.Now
	}
	if o.Lifecycle == nil {
		o.Lifecycle = noopLifecycle{}
	}
	p, err := build(ctx, o)
	if err != nil {
		return nil, fmt.Errorf("build the gateway: %w", err)
	}
	handler := http.Handler(p)
	if o.Wrap != nil {
		handler = o.Wrap(handler)
	}
	return &Edge{
		version: o.Build.Version, logger: o.Logger, lifecycle: o.Lifecycle, parts: p, handler: handler,
		reloader: &reloader{
			load: o.Load, signals: o.ReloadSignals, parts: p, level: o.LogLevel, logger: p.logLimits.reloads, clock: o.Clock,
			lifecycle: o.Lifecycle,
		},
	}, nil
}

// Close releases the resources of Listen. It is for callers that do not call Run.
func (e *Edge) Close() error {
	return errors.Join(e.parts.public.Close(), e.parts.adminServer.Close(), e.parts.close())
}

// Address returns the address of the public API, with the port in use.
func (e *Edge) Address() net.Addr { return e.parts.public.Addr() }

// AdminAddress returns the address of the admin listener, with the port in use.
func (e *Edge) AdminAddress() net.Addr { return e.parts.adminServer.Addr() }
