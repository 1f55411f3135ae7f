package command

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"opsgate/cmd/internal/dev/simulation"
	"opsgate/cmd/internal/kit/commandline"
)

// Bounds of --speed. Beyond 600, the simulation would write all the time.
const minSpeed, maxSpeed = 0.1, 600

// check returns a usage error for flags that are invalid or contradict each other. seeded is whether there is a --seed.
func (f *flags) check(seeded bool) error {
	var text string
	switch {
	case !(f.Speed >= minSpeed && f.Speed <= maxSpeed): // also refuses NaN
		text = fmt.Sprintf("--speed must be from %v to %v", minSpeed, maxSpeed)
	case f.Still && f.Speed != 1:
		text = "--still and --speed exclude each other"
	case f.Still && !f.Rehearse && seeded:
		text = "--seed has no effect with --still, except with --rehearse"
	case f.JUnit != "" && !f.Rehearse:
		text = "--junit has no effect without --rehearse"
	default:
		return nil
	}
	return commandline.UsageError{Err: errors.New(text)}
}

// simulate moves the data until ctx ends, unless it is still.
func simulate(ctx context.Context, b *backend, o options, logger *slog.Logger) error {
	if o.Still {
		return nil
	}
	moving, err := simulation.New(ctx, simulation.Options{
		Backend: b.Backend, Clock: b.clock, Seed: o.Seed, Logger: logger.With(slog.String("part", "simulation")),
	})
	if err == nil {
		moving.Run(ctx)
	} else if ctx.Err() == nil {
		return fmt.Errorf("start the simulation: %w", err)
	}
	return nil
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
	if time.Until(start) > 0 {
		text += "; its time goes on from " + start.UTC().Format(time.RFC3339) + ", because it ran ahead before"
	}
	return text
}
