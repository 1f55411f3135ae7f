package devcmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"time"

	"golang.org/x/sync/errgroup"

	"opsgate/authn"
	"opsgate/cmd/internal/buildinfo"
	"opsgate/cmd/internal/config"
	"opsgate/cmd/internal/demo"
	"opsgate/cmd/internal/edge"
	"opsgate/cmd/internal/logging"
	"opsgate/cmd/internal/refbackend"
)

// Options say how the system is served.
type Options struct {
	Listen, AdminListen string // over what the configuration says; "" for that
	DataDir             string // "" for data that is gone at the end
	Config              string // path of a gateway configuration; "" for the defaults
	Variables           []string
	Log                 io.Writer
	HangUps             <-chan os.Signal // to read the configuration now; otherwise that is done when its file changes
	// Ready is called once requests are served. Its error ends the system.
	Ready func(System) error
}

// A System is what one needs to know to use a running system.
type System struct {
	BaseURL     string
	AdminURL    string
	BackendAddr string
	Tokens      []demo.Token

	AdminAsks []string // what operators must show on the admin listener, in words; nil for nothing
}

// Serve runs the system until ctx ends, and then ends it in order: the gateway drains, then the backend stops, then data that is
// not kept is removed.
func Serve(ctx context.Context, o Options) (err error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("listen for the gateway's calls: %w", err)
	}
	defer func() { _ = listener.Close() }() // closed already where the backend came to serve on it
	load := func() (config.Loaded, error) { return config.Load(configOptions(o, listener.Addr().String())) }
	loaded, err := load()
	if err != nil {
		return err
	}
	log, level := newLog(o, loaded)
	defer func() { err = errors.Join(err, log.Close()) }()
	format := authn.TokenFormat{Prefix: loaded.TokenPrefix}
	tokens, err := demo.Tokens(format)
	if err != nil {
		return err
	}
	// The gateway goes first, so that an address that is taken is found before the data is laid.
	gateway, err := edge.Listen(ctx, edge.Options{
		Loaded: loaded, Load: load, ReloadSignals: o.HangUps, LogLevel: level, Logger: log.Logger, Build: buildinfo.Read(),
	})
	if err != nil {
		return fmt.Errorf("start the gateway: %w", err)
	}
	backend, remove, err := openBackend(ctx, o.DataDir, format, log.Logger)
	if err != nil {
		return errors.Join(err, gateway.Close())
	}
	defer func() { err = errors.Join(err, backend.Close(), remove()) }()
	system := System{
		BaseURL:     scheme(loaded.TLS.CertFile) + config.Reachable(gateway.Address().String()),
		AdminURL:    scheme(loaded.Admin.TLS.CertFile) + config.Reachable(gateway.AdminAddress().String()),
		BackendAddr: listener.Addr().String(),
		Tokens:      tokens,
		AdminAsks:   adminAsks(loaded.Admin),
	}
	return runAll(ctx,
		func(ctx context.Context) error { return backend.Serve(ctx, listener) },
		gateway.Run,
		func(ctx context.Context) error {
			if ready, err := awaitReady(ctx, system.AdminURL, loaded.Admin.TLS); err != nil || !ready {
				return err
			}
			return o.Ready(system)
		},
	)
}

// newLog makes the log as the configuration has it, and tells its warnings.
func newLog(o Options, loaded config.Loaded) (*logging.Log, *slog.LevelVar) {
	level := new(slog.LevelVar)
	level.Set(loaded.Log.Level.Slog())
	log := logging.New(logging.Options{Writer: o.Log, Level: level, Text: loaded.Log.Format == config.FormatText})
	for _, warning := range loaded.Warnings {
		log.Warn("configuration", slog.String("warning", warning.Error()))
	}
	return log, level
}

// scheme begins the URL of a listener that has the certificate.
func scheme(certificate config.File) string {
	if certificate != "" {
		return "https://"
	}
	return "http://"
}

// adminAsks says what operators must show.
func adminAsks(c config.Admin) (list []string) {
	if c.TLS.ClientCAFile != "" {
		list = append(list, "a client certificate of "+string(c.TLS.ClientCAFile))
	}
	if c.Token.Reveal() != "" {
		list = append(list, "the configuration's admin.token")
	}
	return list
}

// runAll runs the backend, the gateway and what waits for both. When ctx ends or one of them fails, the gateway ends first, with
// the backend still there for requests in flight.
func runAll(ctx context.Context, backend, gateway, announce func(context.Context) error) error {
	behind, stopBehind := context.WithCancel(context.WithoutCancel(ctx))
	defer stopBehind()
	backendEnded := make(chan error, 1)
	front, frontCtx := errgroup.WithContext(ctx)
	go func() { backendEnded <- backend(behind) }()
	front.Go(func() error { return gateway(frontCtx) })
	front.Go(func() error { return announce(frontCtx) })
	err := front.Wait()
	stopBehind()
	return errors.Join(err, <-backendEnded)
}

// configOptions has the gateway call the backend at the address, whatever its configuration says. What is not said is as a person
// at a terminal wants it.
func configOptions(o Options, backend string) config.Options {
	options := config.Options{
		Path: o.Config, NoFile: true, Environment: o.Variables,
		Defaults: []config.Setting{
			{Key: "log.format", Value: "text", From: "opsdev"},
			{Key: "shutdown.drain_wait", Value: "0s", From: "opsdev"}, // there is no load balancer to wait for
		},
	}
	for _, service := range refbackend.ServiceNames() {
		setting := config.Setting{Key: "upstreams." + service + ".address", Value: backend, From: "opsdev"}
		options.Overrides = append(options.Overrides, setting)
	}
	if o.Listen != "" {
		options.Overrides = append(options.Overrides, config.Setting{Key: "listen", Value: o.Listen, From: "--listen"})
	}
	if o.AdminListen != "" {
		setting := config.Setting{Key: "admin.listen", Value: o.AdminListen, From: "--admin-listen"}
		options.Overrides = append(options.Overrides, setting)
	}
	return options
}

// openBackend opens the backend with demo data. What remove removes is the data, unless it is to be kept.
func openBackend(ctx context.Context, dir string, format authn.TokenFormat, logger *slog.Logger) (
	_ *refbackend.Backend, remove func() error, err error,
) {
	remove = func() error { return nil }
	if dir == "" {
		if dir, err = os.MkdirTemp("", "opsdev-"); err != nil {
			return nil, nil, fmt.Errorf("make a directory for the data: %w", err)
		}
		remove = func() error { return os.RemoveAll(dir) }
	}
	backend, err := refbackend.Open(ctx, refbackend.Options{DataDir: dir, Logger: logger.With(slog.String("part", "backend"))})
	if err != nil {
		return nil, nil, errors.Join(err, remove())
	}
	if err := demo.Seed(ctx, backend.Store(), format, time.Now()); err != nil {
		return nil, nil, errors.Join(fmt.Errorf("lay the demo data: %w", err), backend.Close(), remove())
	}
	return backend, remove, nil
}
