package load

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
)

// Options say what to send, where to, and for how long.
type Options struct {
	Address     string        // host and port of the server
	Request     []byte        // one whole request as it goes over the wire
	Connections int           // how many are kept busy
	Duration    time.Duration // how long no connection stops asking
}

// Result is what a run measured.
type Result struct {
	Elapsed   time.Duration
	latencies []time.Duration // ascending
}

// Requests returns how many requests were answered.
func (r Result) Requests() int { return len(r.latencies) }

// Rate returns the requests answered a second.
func (r Result) Rate() float64 {
	if len(r.latencies) == 0 {
		return 0
	}
	return float64(len(r.latencies)) / r.Elapsed.Seconds()
}

// Percentile returns the latency that a share p (0 to 1) of the requests stayed within.
func (r Result) Percentile(p float64) time.Duration {
	if len(r.latencies) == 0 {
		return 0
	}
	return r.latencies[min(int(p*float64(len(r.latencies))), len(r.latencies)-1)]
}

// Run loads the server. Any answer but a 200 ends the run with an error: a server that refuses is not compared.
func Run(ctx context.Context, o Options) (Result, error) {
	conns, err := dial(ctx, o)
	if err != nil {
		return Result{}, err
	}
	defer conns.close()

	latencies := make([][]time.Duration, len(conns))
	start := time.Now()
	g, ctx := errgroup.WithContext(ctx)
	defer context.AfterFunc(ctx, conns.giveUp)()
	for i, conn := range conns {
		g.Go(func() (err error) {
			latencies[i], err = ask(ctx, conn, o.Request, start.Add(o.Duration))
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return Result{}, fmt.Errorf("load %s: %w", o.Address, err)
	}
	all := slices.Concat(latencies...)
	elapsed := time.Since(start)
	slices.Sort(all)
	return Result{Elapsed: elapsed, latencies: all}, nil
}

// connections are those of one run.
type connections []net.Conn

// answerLimit is how long the last answers may take before the run is given up.
const answerLimit = 10 * time.Second

func dial(ctx context.Context, o Options) (_ connections, err error) {
	var d net.Dialer
	conns := make(connections, 0, o.Connections)
	defer func() {
		if err != nil {
			conns.close()
		}
	}()
	for range o.Connections {
		conn, err := d.DialContext(ctx, "tcp", o.Address)
		if err != nil {
			return nil, fmt.Errorf("connect the load: %w", err)
		}
		conns = append(conns, conn)
		if err := conn.SetDeadline(time.Now().Add(o.Duration + answerLimit)); err != nil {
			return nil, fmt.Errorf("connect the load: %w", err)
		}
	}
	return conns, nil
}

func (cs connections) close() {
	for _, c := range cs {
		_ = c.Close()
	}
}

// giveUp ends the wait for answers that are still due.
func (cs connections) giveUp() {
	for _, c := range cs {
		_ = c.SetDeadline(time.Now())
	}
}

// ask repeats the request on one connection until the deadline.
func ask(ctx context.Context, conn net.Conn, request []byte, deadline time.Time) ([]time.Duration, error) {
	answers := bufio.NewReaderSize(conn, 16<<10)
	latencies := make([]time.Duration, 0, 4096)
	for now := time.Now(); now.Before(deadline) && ctx.Err() == nil; {
		if _, err := conn.Write(request); err != nil {
			return nil, fmt.Errorf("send: %w", err)
		}
		if err := skipAnswer(answers); err != nil {
			return nil, err
		}
		done := time.Now()
		latencies = append(latencies, done.Sub(now))
		now = done
	}
	return latencies, ctx.Err()
}
