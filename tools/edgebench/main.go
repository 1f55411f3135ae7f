package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"google.golang.org/grpc"

	"opsgate/tools/edgebench/bare"
	"opsgate/tools/edgebench/canned"
	"opsgate/tools/edgebench/floor"
)

// Exit codes, as those of opsgate.
const (
	exitFailed = 1
	exitUsage  = 2
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	if err == nil || errors.Is(err, flag.ErrHelp) {
		return
	}
	fmt.Fprintln(os.Stderr, "edgebench:", err)
	if errors.Is(err, errUsage) {
		os.Exit(exitUsage)
	}
	os.Exit(exitFailed)
}

var errUsage = errors.New("usage")

func run(ctx context.Context, args []string) error {
	if len(args) > 0 {
		switch args[0] {
		case "serve-backend":
			return serve(ctx, canned.Serve)
		case "overload":
			return overload(ctx)
		case "costs":
			return checkCosts(ctx, os.Stdout)
		case "overload-on-this-processor":
			return measureOverload(ctx, os.Stdout)
		case "serve-bare":
			if len(args) != 2 {
				return fmt.Errorf("%w: serve-bare needs the backend's address", errUsage)
			}
			return serveHandler(ctx, bare.New, args[1])
		case "serve-floor":
			if len(args) != 3 {
				return fmt.Errorf("%w: serve-floor needs the backend's address and a team's id", errUsage)
			}
			return serveHandler(ctx, floorFor(args[2]), args[1])
		}
	}
	o, err := parseOptions(args)
	if err != nil {
		return err
	}
	return compare(ctx, o)
}

// serve runs one part of the comparison on a free port and logs its address.
func serve(ctx context.Context, part func(context.Context, net.Listener) error) error {
	lis, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	slog.New(slog.NewJSONHandler(os.Stderr, nil)).Info("listening", "address", lis.Addr().String())
	return part(ctx, lis)
}

func serveHandler(ctx context.Context, f newHandler, backend string) error {
	return serve(ctx, func(ctx context.Context, lis net.Listener) error { return f.serve(ctx, lis, backend) })
}

func floorFor(team string) newHandler {
	return func(_ context.Context, backend *grpc.ClientConn) (http.Handler, error) {
		return floor.New(backend, team), nil
	}
}

// options of a comparison.
type options struct {
	store       string        // of the edge's limits: memory or redis
	rounds      int           // repetitions of each measurement
	duration    time.Duration // length of one measurement
	connections int           // keep-alive connections of the load
	idle        int           // further connections of the edge, each with one request before the load
	enforce     bool          // fail if a bar is missed
	limits      string        // of the edge; "" for unlimited
	settings    string        // additional configuration of the edge
	launcher    []string      // command that starts the edge; empty for none
}

func parseOptions(args []string) (options, error) {
	o := options{}
	fs := flag.NewFlagSet("edgebench", flag.ContinueOnError)
	fs.StringVar(&o.store, "store", storeMemory, "store of the edge's limits: memory, or redis, which starts a redis-server")
	fs.IntVar(&o.rounds, "rounds", 5, "repetitions of each measurement; the result is their median")
	fs.DurationVar(&o.duration, "duration", 1500*time.Millisecond, "length of one measurement")
	fs.IntVar(&o.connections, "connections", 32, "keep-alive connections of the load")
	fs.IntVar(&o.idle, "idle", 0, "further connections of the edge, which have made one request")
	fs.BoolVar(&o.enforce, "enforce", false, "exit 1 if a bar is missed")
	if err := fs.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return o, err
		}
		return o, fmt.Errorf("%w: %w", errUsage, err)
	}
	switch {
	case fs.NArg() > 0:
		return o, fmt.Errorf("%w: unexpected argument %q", errUsage, fs.Arg(0))
	case o.store != storeMemory && o.store != storeRedis:
		return o, fmt.Errorf("%w: -store is memory or redis, not %q", errUsage, o.store)
	case o.rounds < 1 || o.connections < 1 || o.idle < 0 || o.duration <= 0:
		return o, fmt.Errorf("%w: -rounds, -connections and -duration are positive, and -idle is not negative", errUsage)
	}
	o.settings = inFlightSettings(o.connections)
	return o, nil
}

// teamShare is how many connections of one team the edge serves at a time by default: half of the calls in flight to a service.
const teamShare = 256

// inFlightSettings returns the settings with which the edge serves all connections at a time; none if its defaults do.
func inFlightSettings(connections int) string {
	if connections <= teamShare {
		return ""
	}
	return fmt.Sprintf("http: {max_in_flight: %d}\nupstream_calls: {max_in_flight: %d}\n", connections, 2*connections)
}
