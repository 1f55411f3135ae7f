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
	"opsgate/cmd/internal/kit/logging"
)

// A backend is the reference backend with demo data.
type backend struct {
	*service.Backend

	logger *slog.Logger     // bounds repeated lines
	lines  *logging.Limiter // of logger

	start  time.Time // of its clock
	clock  func() time.Time
	remove func() error // removes temporary data
}

// openBackend opens the backend. An empty data directory gets demo data.
func openBackend(
	ctx context.Context, o options, format authn.TokenFormat, logger *slog.Logger, traces trace.TracerProvider,
) (_ *backend, err error) {
	b := &backend{clock: time.Now, remove: func() error { return nil }}
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
		ClockRunsAhead: true,
		Clock:          func() time.Time { return b.clock() }, // set below: its start depends on the data
	})
	if err != nil {
		return nil, errors.Join(err, b.remove())
	}
	if b.start, err = b.seed(ctx, o.Start.Time, format); err != nil {
		return nil, errors.Join(err, b.close())
	}
	b.clock = simulation.Clock(b.start, o.Speed)
	return b, nil
}

// seed inserts the demo data of a time, if there is no data, and returns the time from which the data goes on. The zero time is the
// present; any other is refused if there is data, which would have later times.
func (b *backend) seed(ctx context.Context, at time.Time, format authn.TokenFormat) (start time.Time, err error) {
	teams, err := b.Teams(ctx)
	switch {
	case err != nil:
		return start, err
	case at.IsZero():
		at = time.Now()
	case len(teams) > 0:
		return start, errors.New("--start sets the time of new demo data, but --data-dir has data: leave --start out, or use an empty directory")
	default:
		start = at
	}
	if err := demo.SeedWithSubscribers(ctx, b.Store(), format, at); err != nil {
		return start, fmt.Errorf("create the demo data: %w", err)
	}
	if !start.IsZero() {
		return start, nil
	}
	return simulation.Start(ctx, b.Store())
}

// close closes the backend and removes temporary data.
func (b *backend) close() error { return errors.Join(b.Close(), b.remove()) }
