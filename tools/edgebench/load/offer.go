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

// Offer sends requests at a rate per second, and returns the results by status. A latency starts at the time at which the request was due,
// so that it includes the wait for a free connection.
func Offer(ctx context.Context, o Options, rate int) (map[int]Result, error) {
	conns, err := dial(ctx, o)
	if err != nil {
		return nil, err
	}
	defer conns.close()

	total := int(float64(rate) * o.Duration.Seconds())
	due := make(chan time.Time, total) // large enough that schedule never blocks
	responses := make([]map[int][]time.Duration, len(conns))
	start := time.Now()
	g, ctx := errgroup.WithContext(ctx)
	defer context.AfterFunc(ctx, conns.cancel)()
	for i, conn := range conns {
		g.Go(func() (err error) {
			responses[i], err = send(conn, o.Request, due)
			return err
		})
	}
	g.Go(func() error { return schedule(ctx, due, start, rate) })
	if err := g.Wait(); err != nil {
		return nil, fmt.Errorf("offer %d requests a second to %s: %w", rate, o.Address, err)
	}
	return byStatus(responses, time.Since(start)), nil
}

// schedule puts each request into the queue when it is due, up to the capacity of the queue.
func schedule(ctx context.Context, due chan<- time.Time, start time.Time, rate int) error {
	defer close(due)
	tick := time.NewTicker(time.Millisecond / 2)
	defer tick.Stop()
	for sent := 0; sent < cap(due); {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
		for until := min(int(float64(rate)*time.Since(start).Seconds())+1, cap(due)); sent < until; sent++ {
			due <- start.Add(time.Duration(sent) * time.Second / time.Duration(rate))
		}
	}
	return nil
}

// send sends a request on the connection for each that is due.
func send(conn net.Conn, request []byte, due <-chan time.Time) (map[int][]time.Duration, error) {
	from, latencies := bufio.NewReaderSize(conn, 16<<10), map[int][]time.Duration{}
	for at := range due {
		status, err := exchange(conn, from, request)
		if err != nil {
			return nil, err
		}
		latencies[status] = append(latencies[status], time.Since(at))
	}
	return latencies, nil
}

func byStatus(responses []map[int][]time.Duration, elapsed time.Duration) map[int]Result {
	results := map[int]Result{}
	for _, of := range responses {
		for status, latencies := range of {
			results[status] = Result{Elapsed: elapsed, latencies: append(results[status].latencies, latencies...)}
		}
	}
	for _, r := range results {
		slices.Sort(r.latencies)
	}
	return results
}
