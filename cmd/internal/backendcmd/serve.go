package backendcmd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"

	"opsgate/cmd/internal/commandline"
	"opsgate/cmd/internal/demo"
	"opsgate/cmd/internal/refbackend"
)

type serve struct {
	dataDir
	tokenFormat

	Listen     string     `default:"127.0.0.1:9000" placeholder:"ADDR" help:"Address to listen on (${default}); port 0 selects a free port."`
	Services   []string   `placeholder:"NAME,..." help:"Services: fleet, monitoring, incident, audit, identity (all)."`
	Seed       string     `enum:",demo" default:"" placeholder:"demo" help:"Data to insert into an empty database: demo."`
	Reflection bool       `help:"Serve gRPC reflection, which describes every method to any client."`
	LogLevel   slog.Level `default:"info" placeholder:"LEVEL" help:"debug, which shows calls, info, warn or error (${default})."`
}

// Run serves until ctx ends.
func (c *serve) Run(ctx context.Context, e Environment) (err error) {
	if err := refbackend.CheckServices(c.Services); err != nil {
		return commandline.UsageError{Err: err}
	}
	logger := slog.New(slog.NewJSONHandler(e.Err, &slog.HandlerOptions{Level: c.LogLevel}))
	backend, err := refbackend.Open(ctx, refbackend.Options{
		DataDir: c.DataDir, Clock: e.Clock, Logger: logger, Reflection: c.Reflection,
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, backend.Close()) }()
	if c.Seed == "demo" {
		if err := demo.Seed(ctx, backend.Store(), c.format(), e.Clock()); err != nil {
			return fmt.Errorf("insert the demo data: %w", err)
		}
	}
	var listening net.ListenConfig
	listener, err := listening.Listen(ctx, "tcp", c.Listen)
	if err != nil {
		return fmt.Errorf("listen on %s: %w", c.Listen, err)
	}
	logger.Info("serving", "address", listener.Addr().String(), "services", c.services())
	if err := backend.Serve(ctx, listener, c.Services...); err != nil {
		return err
	}
	logger.Info("stopped")
	return nil
}

func (c *serve) services() []string {
	if len(c.Services) == 0 {
		return refbackend.ServiceNames()
	}
	return c.Services
}
