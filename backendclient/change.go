package backendclient

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"opsgate/proto/contract"

	"google.golang.org/grpc/connectivity"
)

// readyTimeout is how long Prepare waits for new connections to be ready: long enough for
// handshakes with a busy service and for second attempts, so that calls need not wait for the
// connection after the change.
const readyTimeout = 2 * time.Second

// A Change is a prepared change of upstreams. Either Apply or Discard must be called, once.
type Change struct {
	clients     *Clients
	connections map[*upstream]*connection
}

// A ChangeError is why the upstream of one service cannot be changed.
type ChangeError struct {
	Service string // its short name
	Err     error
}

// Error implements error.
func (e *ChangeError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *ChangeError) Unwrap() error { return e.Err }

// Prepare connects to the upstreams whose address or TLS files change. It waits up to two seconds
// until the connections are ready, and then up to two seconds for the answers to probes. The error
// is a [ChangeError]: an address cannot be parsed, TLS files cannot be read, another service is at
// the new address, or the new address is not reachable while the current address is. If neither
// address is reachable, the change can be applied.
func (c *Clients) Prepare(upstreams Upstreams) (*Change, error) {
	change, err := c.build(upstreams)
	if err != nil {
		return nil, err
	}
	change.awaitReady()
	for u, conn := range change.connections {
		current := u.connection.Load()
		if failure := conn.endpoints.Unreachable(); failure != nil && current.grpc.GetState() == connectivity.Ready {
			change.Discard()
			err := fmt.Errorf("%s is not reachable, and %s, which is in use, is: %w", conn.target.Address,
				current.target.Address, failure)
			return nil, &ChangeError{u.service, err}
		}
	}
	if err := change.probe(); err != nil {
		change.Discard()
		return nil, err
	}
	return change, nil
}

// probe returns a ChangeError if another service is at a new address. An endpoint that does not
// answer is no error. All endpoints are probed at the same time, because the caller may hold a
// lock.
func (c *Change) probe() error {
	var mu sync.Mutex
	var refused error
	var running sync.WaitGroup
	for u, conn := range c.connections {
		running.Go(func() {
			errs := u.probeAll(c.clients.ctx, conn, conn.endpoints.Connected())
			if wrong, ok := errors.AsType[*WrongServiceError](errors.Join(errs...)); ok {
				mu.Lock()
				defer mu.Unlock()
				refused = &ChangeError{u.service, wrong}
			}
		})
	}
	running.Wait()
	return refused
}

// awaitReady connects, and waits until all connections are ready and each of their endpoints has
// connected or has failed to connect once, at most for readyTimeout.
func (c *Change) awaitReady() {
	ctx, cancel := context.WithTimeout(c.clients.ctx, readyTimeout)
	defer cancel()
	for _, conn := range c.connections {
		conn.grpc.Connect()
	}
	for _, conn := range c.connections {
		conn.await(ctx, func(s connectivity.State) bool { return s == connectivity.Ready })
		conn.endpoints.AwaitAttempts(ctx)
	}
}

// build makes the connections of a change.
func (c *Clients) build(upstreams Upstreams) (*Change, error) {
	change := &Change{clients: c, connections: make(map[*upstream]*connection)}
	for _, s := range contract.Services() {
		u, target := c.upstreams[s.Name], upstreams.of(s.Name)
		if current := u.connection.Load(); current != nil && current.target.equals(target) {
			continue
		}
		conn, err := c.newConnection(u, target)
		if err != nil {
			change.Discard()
			return nil, &ChangeError{u.service, err}
		}
		change.connections[u] = conn
	}
	return change, nil
}

// equals reports whether two targets have the same address and the same TLS files. The contents of
// the files do not matter, as each connection reads them again.
func (t Target) equals(other Target) bool {
	if t.TLS == nil || other.TLS == nil {
		return t == other
	}
	return t.Address == other.Address && *t.TLS == *other.TLS
}

// Discard closes the prepared connections.
func (c *Change) Discard() {
	for _, conn := range c.connections {
		conn.cancel()
		_ = conn.grpc.Close() // it fails only if it was closed before
	}
}

// Apply replaces the connections. New calls use the new connections. Calls in flight end on the old
// connections, which then close. Streams on the old connections end with Unavailable. The breakers
// of each changed service are closed. Apply must not be concurrent with other methods that change
// the Clients.
func (c *Change) Apply() {
	for u, conn := range c.connections {
		conn.grpc.Connect() // gRPC would wait for the first call
		old := u.connection.Swap(conn)
		u.recordAvailability(conn.grpc.GetState(), time.Now())
		if old == nil {
			continue
		}
		u.requestProbes()
		u.breakers.Reset(c.clients.settings.Load().Breaker, "the address of the service was changed")
		old.cancel()
		c.clients.running.Go(func() { old.closeWhenUnused(c.clients.ctx, u.logger.With(slog.String("service", u.service))) })
	}
}

// closeWhenUnused closes a replaced connection when its calls have ended. If ctx ends first, it
// closes the connection at once, which ends the calls.
func (c *connection) closeWhenUnused(ctx context.Context, logger *slog.Logger) {
	closeOnce := sync.OnceValue(c.grpc.Close)
	stop := context.AfterFunc(ctx, func() { _ = closeOnce() })
	defer stop()
	c.users.Lock() // waits for the calls; it stays locked, so that acquire does not return the connection
	if err := closeOnce(); err != nil {
		logger.WarnContext(ctx, "close the connection to a former address", slog.Any("error", err))
	}
}
