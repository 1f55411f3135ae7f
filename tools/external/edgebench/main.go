package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	switch {
	case err == nil, errors.Is(err, flag.ErrHelp):
	case errors.Is(err, errUsage):
		fmt.Fprintln(os.Stderr, "edgebench:", err)
		os.Exit(2)
	default:
		fmt.Fprintln(os.Stderr, "edgebench:", err)
		os.Exit(1)
	}
}

var errUsage = errors.New("usage")

// run compares, or runs one part of a comparison: `serve PART BACKEND-ADDRESS REDIS-ADDRESS`.
func run(ctx context.Context, args []string) error {
	if len(args) == 4 && args[0] == "serve" {
		return serve(ctx, args[1], args[2], args[3])
	}
	o, err := parseOptions(args)
	if err != nil {
		return err
	}
	return compare(ctx, o, os.Stdout)
}

// options of a comparison.
type options struct {
	redis       bool          // the limits of the edge are in Redis, not in memory
	rounds      int           // repetitions of each measurement
	duration    time.Duration // length of one measurement
	connections int           // keep-alive connections of the load
	enforce     bool          // fail if a bar is missed
}

func parseOptions(args []string) (o options, err error) {
	fs := flag.NewFlagSet("edgebench", flag.ContinueOnError)
	store := fs.String("store", "memory", "store of the edge's limits: memory, or redis, which starts a redis-server")
	fs.IntVar(&o.rounds, "rounds", 5, "repetitions of each measurement; the result is their median")
	fs.DurationVar(&o.duration, "duration", 1500*time.Millisecond, "length of one measurement")
	fs.IntVar(&o.connections, "connections", 32, "keep-alive connections of the load")
	fs.BoolVar(&o.enforce, "enforce", false, "exit 1 if a bar is missed")
	switch err = fs.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return o, err
	case err != nil:
		return o, fmt.Errorf("%w: %w", errUsage, err)
	case fs.NArg() > 0:
		return o, fmt.Errorf("%w: unexpected argument %q", errUsage, fs.Arg(0))
	case *store != "memory" && *store != "redis":
		return o, fmt.Errorf("%w: -store is memory or redis, not %q", errUsage, *store)
	case o.rounds < 1 || o.connections < 1 || o.duration <= 0:
		return o, fmt.Errorf("%w: -rounds, -connections and -duration are positive", errUsage)
	}
	o.redis = *store == "redis"
	return o, nil
}
