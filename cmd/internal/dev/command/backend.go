package command

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"

	"opsgate/authn"
	"opsgate/cmd/internal/backend/demo"
	"opsgate/cmd/internal/backend/service"
	"opsgate/cmd/internal/dev/simulation"
	"opsgate/internal/logging"
)

// A backend is the reference backend with demo data.
type backend struct {
	*service.Backend

	logger *slog.Logger     // bounds repeated lines
	lines  *logging.Limiter // of logger
	remove func() error     // removes temporary data
}

// openBackend opens the backend. An empty data directory gets demo data.
func openBackend(
	ctx context.Context, o options, format authn.TokenFormat, logger *slog.Logger, traces trace.TracerProvider,
) (_ *backend, err error) {
	b := &backend{remove: func() error { return nil }}
	if b.logger, b.lines, err = logging.NewRepeated(logger.Handler(), time.Now, prometheus.NewRegistry()); err != nil {
		return nil, err
	}
	dir := o.DataDir
	if dir == "" {
		if dir, err = os.MkdirTemp("", "opsdev-"); err != nil {
			return nil, fmt.Errorf("make a directory for the data: %w", err)
		}
		b.remove = func() error { return os.RemoveAll(dir) }
	}
	b.Backend, err = service.Open(ctx, service.Options{
		DataDir: dir, Logger: b.logger.With(slog.String("part", "backend")), TracerProvider: traces,
	})
	if err != nil {
		return nil, errors.Join(err, b.remove())
	}
	if err := demo.SeedWithSubscribers(ctx, b.Store(), format, time.Now()); err != nil {
		return nil, errors.Join(fmt.Errorf("create the demo data: %w", err), b.close())
	}
	return b, nil
}

// move moves the demo data until ctx ends, unless it is still.
func (b *backend) move(ctx context.Context, o options) error {
	if o.Still {
		return nil
	}
	moving, err := simulation.New(ctx, simulation.Options{
		Backend: b.Backend, Clock: time.Now, Seed: o.Seed, Logger: b.logger.With(slog.String("part", "demo")),
	})
	if err != nil && ctx.Err() == nil {
		return fmt.Errorf("move the demo data: %w", err)
	}
	if err == nil {
		moving.Run(ctx)
	}
	return nil
}

// close closes the backend and removes temporary data.
func (b *backend) close() error { return errors.Join(b.Close(), b.remove()) }
