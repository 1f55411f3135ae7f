package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"syscall"

	"github.com/prometheus/client_golang/prometheus"

	"opsgate/authn"
	"opsgate/cmd/internal/backend/delivery"
	"opsgate/cmd/internal/backend/demo"
	"opsgate/cmd/internal/backend/service"
	"opsgate/cmd/internal/gate/config"
	"opsgate/cmd/internal/gate/wiring"
	"opsgate/internal/buildinfo"
	"opsgate/internal/filereader"
	"opsgate/internal/tracing"
)

// options of serveSystem.
type options struct {
	flags

	Senders   map[string]delivery.Sender // of notifications, by channel
	Variables []string
	Log       io.Writer
	HangUps   <-chan os.Signal // each reloads the configuration, as does a change of its file
	// Ready is called when the system is ready. Its error ends the system.
	Ready func(system) error
}

// system has the addresses and tokens of a running system.
type system struct {
	BaseURL     string
	AdminURL    string
	BackendAddr string
	Tokens      []demo.Token

	Public     []string // the addresses of listeners that are not on loopback
	AdminNeeds []string // the credentials that the admin listener requires, for people; nil for none
}

// serveSystem runs the system until ctx ends. Then the gateway drains, the backend stops, then the
// deliveries, and temporary data is removed.
func serveSystem(ctx context.Context, o options) (err error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("listen for the gateway's calls: %w", err)
	}
	defer func() { _ = listener.Close() }() // already closed if the backend has served
	sources := configOptions(o, listener.Addr().String())
	loaded, err := config.Load(sources)
	if err != nil {
		return err
	}
	log, level := wiring.NewLog(o.Log, loaded)
	defer func() { err = errors.Join(err, log.Close()) }()
	format := authn.TokenFormat{Prefix: loaded.TokenPrefix}
	tokens, err := demo.Tokens(format)
	if err != nil {
		return err
	}
	// The gateway listens first, so that an address in use is reported before the demo data is
	// created.
	gateway, traces, err := listenGateway(ctx, wiring.Options{
		Loaded: loaded, Load: func() (config.Loaded, error) { return config.Load(sources) }, ReloadSignals: o.HangUps,
		Logger:   log.Logger,
		LogLevel: level, Build: buildinfo.Read(), Wrap: o.disturb(log.Logger),
	})
	if err != nil {
		return err
	}
	defer traces.Close()
	backend, err := openBackend(ctx, o, format, log.Logger, traces.TracerProvider())
	if err != nil {
		return errors.Join(err, gateway.Close())
	}
	defer func() { err = errors.Join(err, backend.close()) }()
	running := system{
		BaseURL:     scheme(loaded.TLS.CertFile) + config.Reachable(gateway.Address().String()),
		AdminURL:    scheme(loaded.Admin.TLS.CertFile) + config.Reachable(gateway.AdminAddress().String()),
		BackendAddr: listener.Addr().String(), Public: public(gateway.Address(), gateway.AdminAddress()),
		AdminNeeds: adminNeeds(loaded.Admin), Tokens: tokens,
	}
	return runLayers(ctx,
		func(ctx context.Context) error { return backend.notify(ctx, o.Senders, traces.TracerProvider()) },
		func(ctx context.Context) error { return backend.Serve(ctx, listener) },
		together(gateway.Run,
			func(ctx context.Context) error { return announce(ctx, o, running, loaded.Admin.TLS) },
			func(ctx context.Context) error { return backend.move(ctx, o) },
			backend.lines.Run,
		),
	)
}

// disturb returns what wraps the handler of the gateway; nil for nothing.
func (o options) disturb(logger *slog.Logger) func(http.Handler) http.Handler {
	if o.Disturb == 0 {
		return nil
	}
	return func(next http.Handler) http.Handler {
		return &disturber{next: next, share: float64(o.Disturb) / 100, seed: o.Seed, logger: logger}
	}
}

// listenGateway opens the listeners of the gateway, and what records the spans of the backend.
func listenGateway(ctx context.Context, o wiring.Options) (*wiring.Gateway, *tracing.Provider, error) {
	traces, err := wiring.NewTracing(o, "opsbackend", prometheus.NewRegistry())
	if err != nil {
		return nil, nil, fmt.Errorf("record the backend: %w", err)
	}
	gateway, err := wiring.Listen(ctx, o)
	if err != nil {
		traces.Close()
		if errors.Is(err, syscall.EADDRINUSE) {
			err = fmt.Errorf("%w; --listen and --admin-listen choose other addresses, port 0 a free one", err)
		}
		return nil, nil, fmt.Errorf("start the gateway: %w", err)
	}
	return gateway, traces, nil
}

// announce calls Ready when the system is ready.
func announce(ctx context.Context, o options, s system, files config.AdminTLS) error {
	if ready, err := awaitReady(ctx, s.AdminURL, files); err != nil || !ready {
		return err
	}
	return o.Ready(s)
}

// scheme returns the beginning of the URL of a listener with this certificate; "" for none.
func scheme(certificate config.File) string {
	if certificate != "" {
		return "https://"
	}
	return "http://"
}

// public returns the addresses that are not on loopback.
func public(listeners ...net.Addr) (list []string) {
	for _, address := range listeners {
		if tcp, ok := address.(*net.TCPAddr); ok && !tcp.IP.IsLoopback() {
			list = append(list, address.String())
		}
	}
	return list
}

// adminNeeds returns the credentials that the admin listener requires.
func adminNeeds(c config.Admin) (list []string) {
	if c.TLS.ClientCAFile != "" {
		list = append(list, "a client certificate of "+string(c.TLS.ClientCAFile))
	}
	if c.Token.Reveal() != "" {
		list = append(list, "the configuration's admin.token")
	}
	return list
}

// configOptions returns the options for a gateway that calls the backend at the address. The
// defaults suit a terminal.
func configOptions(o options, backend string) config.Options {
	options := config.Options{
		Path: o.Config, NoFile: true, Environment: o.Variables, Reader: new(filereader.Reader),
		Defaults: []config.Setting{
			{Key: "log.format", Value: "text", From: "opsdev"},
			{Key: "shutdown.drain_wait", Value: "0s", From: "opsdev"}, // there is no load balancer
		},
	}
	override := func(key, value, from string) {
		if value != "" {
			options.Flags = append(options.Flags, config.Setting{Key: key, Value: value, From: from})
		}
	}
	for _, service := range service.Names() {
		override("upstreams."+service+".address", backend, "opsdev")
	}
	override("listen", o.Listen, "--listen")
	override("admin.listen", o.AdminListen, "--admin-listen")
	return options
}
