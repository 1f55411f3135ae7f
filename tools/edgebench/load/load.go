package load

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
)

// Options of a run.
type Options struct {
	Address     string        // host and port of the server
	Request     []byte        // all bytes of the request
	Connections int           // number of connections
	Duration    time.Duration // requests are sent for this time
}

// Result has the latencies of a run.
type Result struct {
	Elapsed   time.Duration
	latencies []time.Duration // ascending
}

// Requests returns the number of answered requests.
func (r Result) Requests() int { return len(r.latencies) }

// Rate returns the answered requests per second.
func (r Result) Rate() float64 {
	if len(r.latencies) == 0 {
		return 0
	}
	return float64(len(r.latencies)) / r.Elapsed.Seconds()
}

// Percentile returns the latency that a share p (0 to 1) of the requests did not exceed.
func (r Result) Percentile(p float64) time.Duration {
	if len(r.latencies) == 0 {
		return 0
	}
	return r.latencies[min(int(p*float64(len(r.latencies))), len(r.latencies)-1)]
}

// Run loads the server. It returns an error at the first status other than 200.
func Run(ctx context.Context, o Options) (Result, error) {
	conns, err := dial(ctx, o)
	if err != nil {
		return Result{}, err
	}
	defer conns.close()

	latencies := make([][]time.Duration, len(conns))
	start := time.Now()
	g, ctx := errgroup.WithContext(ctx)
	defer context.AfterFunc(ctx, conns.cancel)()
	for i, conn := range conns {
		g.Go(func() (err error) {
			latencies[i], err = repeat(ctx, conn, o.Request, start.Add(o.Duration))
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

// Hold opens the connections, sends the request once on each, and keeps them open until release is called.
func Hold(ctx context.Context, o Options) (release func(), err error) {
	conns, err := dial(ctx, o)
	if err != nil {
		return nil, err
	}
	for _, conn := range conns {
		if err := succeed(conn, bufio.NewReader(conn), o.Request); err != nil {
			conns.close()
			return nil, fmt.Errorf("hold connections of %s: %w", o.Address, err)
		}
	}
	return conns.close, nil
}

// connections are the connections of one run.
type connections []net.Conn

// responseTimeout limits the wait for the last responses.
const responseTimeout = 10 * time.Second

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
		if err := conn.SetDeadline(time.Now().Add(o.Duration + responseTimeout)); err != nil {
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

// cancel ends all reads and writes.
func (cs connections) cancel() {
	for _, c := range cs {
		_ = c.SetDeadline(time.Now())
	}
}

// repeat repeats the request on one connection until the deadline.
func repeat(ctx context.Context, conn net.Conn, request []byte, deadline time.Time) ([]time.Duration, error) {
	responses := bufio.NewReaderSize(conn, 16<<10)
	latencies := make([]time.Duration, 0, 4096)
	for now := time.Now(); now.Before(deadline) && ctx.Err() == nil; {
		if err := succeed(conn, responses, request); err != nil {
			return nil, err
		}
		done := time.Now()
		latencies = append(latencies, done.Sub(now))
		now = done
	}
	return latencies, ctx.Err()
}

// succeed sends the request and reads its response, whose status must be 200.
func succeed(conn net.Conn, from *bufio.Reader, request []byte) error {
	status, err := exchange(conn, from, request)
	if err == nil && status != http.StatusOK {
		err = fmt.Errorf("status %d", status)
	}
	return err
}

// exchange sends the request, reads its response to the end, and returns the status.
func exchange(conn net.Conn, from *bufio.Reader, request []byte) (status int, err error) {
	if _, err := conn.Write(request); err != nil {
		return 0, fmt.Errorf("send: %w", err)
	}
	response, err := http.ReadResponse(from, nil)
	if err == nil {
		_, err = io.Copy(io.Discard, response.Body)
		_ = response.Body.Close()
	}
	if err != nil {
		return 0, fmt.Errorf("read a response: %w", err)
	}
	return response.StatusCode, nil
}
