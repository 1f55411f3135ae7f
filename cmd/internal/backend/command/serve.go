package command

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"opsgate/cmd/internal/backend/demo"
	"opsgate/cmd/internal/backend/service"
	"opsgate/internal/buildinfo"
	"opsgate/internal/certs"
	"opsgate/internal/commandline"
	"opsgate/internal/logging"
	"opsgate/internal/tracing"
)

type serve struct {
	dataDir
	tokenFormat

	Listen, AdminListen string
	Services            []string // nil for all
	Seed                string
	Reflection          bool
	LogLevel            slog.Level

	TLSCert, TLSKey, TLSClientCA string

	Outgoing outgoing
	Ingest   ingest
}

func serveCommand(e Environment) *cobra.Command {
	s := &serve{}
	c := &cobra.Command{
		Use: "serve", Short: "Serve the internal services over gRPC until SIGTERM",
		RunE: func(c *cobra.Command, _ []string) error { return s.run(c.Context(), e) },
	}
	flags := c.Flags()
	s.dataDir.addTo(c)
	s.tokenFormat.addTo(c)
	flags.StringVar(&s.Listen, "listen", "127.0.0.1:9000", "`ADDR` to listen on; port 0 selects a free port")
	flags.StringVar(&s.AdminListen, "admin-listen", "", "`ADDR` of /metrics and /livez. Off by default")
	flags.StringSliceVar(&s.Services, "services", nil,
		"services with these `NAMES`: fleet, monitoring, incident, audit, identity (all)")
	commandline.Enum(flags, &s.Seed, "seed", "", "data to insert into an empty database: demo", "", "demo")
	flags.BoolVar(&s.Reflection, "reflection", false, "serve gRPC reflection, which describes every method to any client")
	commandline.Text(flags, &s.LogLevel, "log-level", "info",
		"`LEVEL` of the log: debug, which shows calls, info, warn or error")
	flags.StringVar(&s.TLSCert, "tls-cert", "",
		"`FILE` with the certificate of the services, as PEM; without it, plaintext")
	flags.StringVar(&s.TLSKey, "tls-key", "",
		"`FILE` with the key of the certificate. Changed files apply to new connections")
	flags.StringVar(&s.TLSClientCA, "tls-client-ca", "",
		"`FILE` with the roots of client certificates, which are then required")
	c.MarkFlagsRequiredTogether("tls-cert", "tls-key")
	s.Outgoing.addTo(flags)
	s.Ingest.addTo(flags)
	return c
}

// run serves until ctx ends.
func (c *serve) run(ctx context.Context, e Environment) (err error) {
	if err := c.check(); err != nil {
		return commandline.UsageError{Err: err}
	}
	s, err := c.open(ctx, e)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	if c.Seed == "demo" {
		if err := demo.Seed(ctx, s.backend.Store(), c.TokenFormat, e.Clock()); err != nil {
			return fmt.Errorf("insert the demo data: %w", err)
		}
	}
	return s.run(ctx)
}

// open opens what a run of the command uses.
func (c *serve) open(ctx context.Context, e Environment) (s server, err error) {
	s = server{serve: c, environment: e, registry: newRegistry()}
	handler := slog.NewJSONHandler(e.Err, &slog.HandlerOptions{Level: c.LogLevel})
	if s.logger, s.logLines, err = logging.NewRepeated(handler, e.Clock, s.registry); err != nil {
		return s, err
	}
	encryption, err := c.tls("gRPC", c.TLSClientCA, s.logger)
	if err != nil {
		return s, err
	}
	s.traces, err = tracing.New(tracing.Options{
		Service: "opsbackend", Version: buildinfo.Read().Version, Logger: s.logger, Registerer: s.registry,
	})
	if err != nil {
		return s, err
	}
	s.backend, err = service.Open(ctx, service.Options{
		DataDir: c.DataDir, Clock: e.Clock, Logger: s.logger, Reflection: c.Reflection,
		TracerProvider: s.traces.TracerProvider(),
		TLS:            encryption,
	})
	if err != nil {
		s.traces.Close()
		return s, err
	}
	s.registry.MustRegister(databaseSize(s.backend.Store()))
	return s, nil
}

// check returns an error for settings that need each other.
func (c *serve) check() error {
	errs := []error{
		c.Validate(), service.CheckServices(c.Services), c.Outgoing.check(), c.Ingest.check(c.TLSCert != ""),
	}
	if c.TLSClientCA != "" && c.TLSCert == "" {
		errs = append(errs, errors.New("--tls-client-ca needs --tls-cert and --tls-key"))
	}
	return errors.Join(errs...)
}

// tls returns the TLS configuration of a listener, or nil for plaintext. With clientCA, clients
// must have a certificate.
func (c *serve) tls(listener, clientCA string, logger *slog.Logger) (*tls.Config, error) {
	if c.TLSCert == "" {
		return nil, nil //nolint:nilnil // nil means plaintext
	}
	return certs.New(certs.Options{
		Listener: listener, Protocols: []string{"h2"}, RequireClient: clientCA != "", Logger: logger,
		Files: certs.Files{Certificate: c.TLSCert, Key: c.TLSKey, ClientCA: clientCA},
	})
}

// A server is one run of the command.
type server struct {
	*serve

	environment Environment
	backend     *service.Backend
	logger      *slog.Logger
	logLines    *logging.Limiter // of logger
	registry    *prometheus.Registry
	traces      *tracing.Provider
}

// close closes what open has opened.
func (s server) close() error {
	err := s.backend.Close()
	s.traces.Close()
	return err
}

// run runs all parts until ctx ends or one of them fails.
func (s server) run(ctx context.Context) error {
	parts, err := s.parts(ctx)
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	for _, part := range parts {
		group.Go(func() error { return part(ctx) })
	}
	if err := group.Wait(); err != nil {
		return err
	}
	s.logger.Info("stopped")
	return nil
}

// parts opens the listeners and returns what runs beside each other.
func (s server) parts(ctx context.Context) (parts []func(context.Context) error, err error) {
	var opened listeners
	defer func() {
		if err != nil {
			opened.close()
		}
	}()
	deliver, err := s.delivery()
	if err != nil {
		return nil, err
	}
	calls, err := opened.listen(ctx, s.Listen)
	if err != nil {
		return nil, err
	}
	report, reportAttributes, err := s.ingest(ctx, &opened)
	if err != nil {
		return nil, err
	}
	attributes := append([]any{"address", calls.Addr().String(), "services", s.services()}, reportAttributes...)
	if s.AdminListen != "" {
		listener, err := opened.listen(ctx, s.AdminListen)
		if err != nil {
			return nil, err
		}
		attributes = append(attributes, "admin", listener.Addr().String())
		parts = append(parts, func(ctx context.Context) error { return serveHTTP(ctx, listener, adminPage(s.registry)) })
	}
	parts = append(parts, deliver, report, s.logLines.Run, s.backend.RunMaintenance, func(ctx context.Context) error {
		return s.backend.Serve(ctx, calls, s.Services...)
	})
	s.logger.Info("serving", attributes...)
	return parts, nil
}

func (c *serve) services() []string {
	if len(c.Services) == 0 {
		return service.Names()
	}
	return c.Services
}

// delivers reports whether this process delivers notifications: the one that writes them does.
func (c *serve) delivers() bool {
	return !c.Outgoing.NoDelivery && slices.Contains(c.services(), "incident")
}
