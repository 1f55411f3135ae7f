package wiring

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"os"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"opsgate/cmd/internal/gate/admin"
	"opsgate/cmd/internal/gate/config"
	"opsgate/cmd/internal/gate/httpserver"
	"opsgate/cmd/internal/gate/systemd"
	"opsgate/gateway"
	"opsgate/internal/buildinfo"
)

// Options are the options of [Listen]. Loaded, Load, LogLevel and Logger are required.
type Options struct {
	Loaded config.Loaded
	// Load reads the configuration again from the sources of Loaded.
	Load func() (config.Loaded, error)
	// ReloadSignals trigger a reload. A change of a file triggers one too.
	ReloadSignals <-chan os.Signal
	LogLevel      *slog.LevelVar // of Logger; a reload sets it
	Logger        *slog.Logger
	Build         buildinfo.Info
	Clock         func() time.Time // wall clock; nil for time.Now
	Notifier      *systemd.Notifier
	// Listener is the bound public listener, closed with the gateway; nil to bind the address of
	// Loaded.
	Listener *net.TCPListener
	// Wrap wraps the handler of the public listener; nil for none.
	Wrap func(http.Handler) http.Handler
}

// common has the options and the registry with which all parts are built.
type common struct {
	Options

	registry *prometheus.Registry
	logs     *logLimits
}

func newCommon(o Options) (common, error) {
	o = o.withDefaults()
	registry := newRegistry(o.Build)
	logs, err := newLogLimits(o, registry)
	return common{o, registry, logs}, err
}

// newRegistry returns a registry with the metrics of the Go runtime, the process, and the build.
func newRegistry(build buildinfo.Info) *prometheus.Registry {
	info := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "opsgate_build_info",
		Help: "1, with the build as labels.",
		ConstLabels: prometheus.Labels{
			"version": build.Version, "revision": build.Revision, "goversion": build.GoVersion,
		},
	})
	info.Set(1)
	registry := prometheus.NewRegistry()
	registry.MustRegister( // cannot fail: the registry is empty
		info, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	return registry
}

// withDefaults returns the options, with defaults for options that are not set.
func (o Options) withDefaults() Options {
	if o.Clock == nil {
		o.Clock = time.Now
	}
	if o.Wrap == nil {
		o.Wrap = func(handler http.Handler) http.Handler { return handler }
	}
	return o
}

// A Gateway is a gateway with its listeners.
type Gateway struct {
	version       string // of the program
	logger        *slog.Logger
	registry      *prometheus.Registry
	notifier      *systemd.Notifier // nil for none
	public, admin *httpserver.Server
	api           http.Handler // of the public listener
	pages         *admin.Admin
	active        *activeConfig
	reloader      *reloader
	refunds       *gateway.Refunds
	tasks         []func(context.Context) error // each ends with its context
	opened        closers
}

// Listen builds a gateway and binds its listeners. Connections wait until Run is called. Listen
// does not wait for the internal services. It returns an error, and releases what it has opened, if
// an address is in use, the configuration is invalid, or Options.Listener has another address than
// the configured one.
func Listen(ctx context.Context, o Options) (_ *Gateway, err error) {
	var opened closers
	defer func() {
		if err != nil {
			err = errors.Join(err, opened.close())
		}
	}()
	c, err := newCommon(o)
	if err != nil {
		return nil, err
	}
	public, adminServer, err := listen(ctx, c, &opened)
	if err != nil {
		return nil, err
	}
	dependencies, err := newDependencies(c, &opened)
	if err != nil {
		return nil, err
	}
	builder, err := newBuilder(c, dependencies)
	if err != nil {
		return nil, err
	}
	first, err := builder.snapshot(c.Loaded, c.Clock(), nil)
	if err != nil {
		return nil, err
	}
	active := newActiveConfig(first)
	if err := c.registry.Register(active); err != nil {
		return nil, err
	}
	pages, err := newAdmin(c, dependencies, builder, active, public)
	if err != nil {
		return nil, err
	}
	parts := &reloadableParts{c.Logger, c.LogLevel, dependencies, builder.loadLimit, public, pages}
	reloader, err := newReloader(c, builder, active, parts)
	if err != nil {
		return nil, err
	}
	return &Gateway{
		version: c.Build.Version, logger: c.Logger, registry: c.registry, notifier: c.Notifier, public: public,
		admin: adminServer,
		api:   c.Wrap(active), pages: pages, active: active, reloader: reloader, refunds: builder.refunds, opened: opened,
		tasks: append(slices.Concat(dependencies.tasks(), builder.tasks()), pages.Run, c.logs.Run),
	}, nil
}

// Close releases the resources of Listen. It is for callers that do not call Run.
func (g *Gateway) Close() error { return g.opened.close() }

// Address returns the address of the public API, with the port in use.
func (g *Gateway) Address() net.Addr { return g.public.Addr() }

// AdminAddress returns the address of the admin listener, with the port in use.
func (g *Gateway) AdminAddress() net.Addr { return g.admin.Addr() }

// closers release what was opened, in reverse order.
type closers []func() error

func (c *closers) add(closer func() error) { *c = append(*c, closer) }

func (c *closers) close() error {
	var errs []error
	for _, closer := range slices.Backward(*c) {
		errs = append(errs, closer())
	}
	return errors.Join(errs...)
}
