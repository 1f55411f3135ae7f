package main

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

// load sends the bytes of a request over a number of connections, on each the next one after the
// response to the last. It returns the latencies, ascending, or an error at the first status other
// than 200. It encodes nothing, so that it uses little CPU of the machine that it shares with the
// server.
func load(
	ctx context.Context, address string, request []byte, connections int, duration time.Duration,
) ([]time.Duration, error) {
	latencies := make([][]time.Duration, connections)
	g, ctx := errgroup.WithContext(ctx)
	deadline := time.Now().Add(duration)
	for i := range connections {
		g.Go(func() (err error) {
			latencies[i], err = repeat(ctx, address, request, deadline)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return nil, fmt.Errorf("load %s: %w", address, err)
	}
	all := slices.Concat(latencies...)
	slices.Sort(all)
	return all, nil
}

// responseTimeout limits the wait for the last responses.
const responseTimeout = 10 * time.Second

// repeat repeats the request on one connection until the deadline.
func repeat(
	ctx context.Context, address string, request []byte, deadline time.Time,
) (latencies []time.Duration, err error) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close() }()
	defer context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Now()) })()
	if err := conn.SetDeadline(deadline.Add(responseTimeout)); err != nil {
		return nil, err
	}
	responses := bufio.NewReaderSize(conn, 16<<10)
	for now := time.Now(); now.Before(deadline); {
		if err := exchange(conn, responses, request); err != nil {
			return nil, err
		}
		done := time.Now()
		latencies = append(latencies, done.Sub(now))
		now = done
	}
	return latencies, ctx.Err()
}

// exchange sends the request, and reads its response to the end. Its status must be 200.
func exchange(conn net.Conn, from *bufio.Reader, request []byte) error {
	if _, err := conn.Write(request); err != nil {
		return err
	}
	response, err := http.ReadResponse(from, nil)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	if _, err := io.Copy(io.Discard, response.Body); err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("status %d", response.StatusCode)
	}
	return nil
}
