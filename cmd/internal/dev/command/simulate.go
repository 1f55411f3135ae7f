package command

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"time"

	"opsgate/cmd/internal/backend/service"
	"opsgate/cmd/internal/dev/simulation"
	"opsgate/cmd/internal/kit/commandline"
	ingestv1 "opsgate/proto/ops/ingest/v1"
)

// Bounds of --speed. Beyond 600, the simulation would write all the time.
const minSpeed, maxSpeed = 0.1, 600

// Bounds of --start: the database stores nanoseconds since 1970 in 64 bits, and demo data is up to two years older.
const minYear, maxYear = 1980, 2200

// A startTime is the value of --start; zero, or an empty text, for the present.
type startTime struct{ time.Time }

// UnmarshalText implements [encoding.TextUnmarshaler].
func (s *startTime) UnmarshalText(text []byte) error {
	if len(text) == 0 {
		return nil
	}
	if err := s.Time.UnmarshalText(text); err != nil || s.Year() < minYear || s.Year() > maxYear {
		return fmt.Errorf("must be an RFC 3339 time of the years %d to %d, for example 2026-03-10T09:30:00Z", minYear, maxYear)
	}
	return nil
}

// check returns a usage error for flags that are invalid or contradict each other. seeded is whether there is a --seed.
func (f *flags) check(seeded bool) error {
	var text string
	switch {
	case !(f.Speed >= minSpeed && f.Speed <= maxSpeed): // also refuses NaN
		text = fmt.Sprintf("--speed must be from %v to %v", minSpeed, maxSpeed)
	case f.Still && f.Speed != 1:
		text = "--still and --speed exclude each other"
	case f.Still && seeded:
		text = "--seed has no effect with --still"
	default:
		return nil
	}
	return commandline.UsageError{Err: errors.New(text)}
}

// simulate moves the data until ctx ends, unless it is still. Agents and probes report over a listener of their own, with a secret that
// only this process has.
func simulate(ctx context.Context, b *backend, o options, logger *slog.Logger) error {
	if o.Still {
		return nil
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("listen for reports: %w", err)
	}
	secret := rand.Text()
	return runLayers(ctx,
		func(ctx context.Context) error {
			return b.ServeIngest(ctx, listener, service.IngestOptions{Secrets: []string{secret}})
		},
		func(ctx context.Context) (err error) {
			conn, err := simulation.Dial(listener.Addr().String(), secret)
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, conn.Close()) }()
			moving, err := simulation.New(ctx, simulation.Options{
				Backend: b.Backend, Ingest: ingestv1.NewIngestServiceClient(conn), Clock: b.clock, Seed: o.Seed,
				Logger: logger.With(slog.String("part", "simulation")),
			})
			if err == nil {
				moving.Run(ctx)
			} else if ctx.Err() == nil {
				return fmt.Errorf("start the simulation: %w", err)
			}
			return nil
		},
	)
}

// motion describes how the data moves.
func motion(o options, start time.Time) string {
	text := fmt.Sprintf("moves %v times as fast as time (--still stops it)", o.Speed)
	switch {
	case o.Still:
		text = "is still"
	case o.Speed == 1:
		text = "moves: agents report, monitors fail and recover (--still stops it, --speed 60 hurries)"
	}
	switch {
	case !o.Start.IsZero():
		text += "; its time started at " + start.UTC().Format(time.RFC3339)
	case time.Until(start) > 0:
		text += "; its time goes on from " + start.UTC().Format(time.RFC3339) + ", because it ran ahead before"
	}
	return text
}
