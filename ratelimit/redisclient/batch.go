package redisclient

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// A server that resumes after it hung executes the calls in flight, though their callers got an
// error: at most lanes × maxBatch, and those that a cluster redirects. More lanes cost processor
// time, fewer add waits if the server is far away.
const (
	lanes    = 2
	maxBatch = 16
)

var errQueued = fmt.Errorf("waited too long for earlier calls: %w", context.DeadlineExceeded)

// A batcher sends the calls of concurrent callers in batches, because the system calls to write and
// read cost more than the decision. Each server has lanes. A call for which a lane is free is sent
// at once, by its caller. Else it waits, and the waiting caller with the earliest deadline gets the
// next lane and sends the calls that have gathered, within its own deadline. So a batch ends before
// the deadline of every call in it and of every waiting one. Exception: a call that MasterForKey or
// the hook delayed may join, or wait for, a batch with a later deadline.
type batcher struct {
	minTime time.Duration // until its deadline, for a waiting call to get a lane: with less, its batch could time out

	mu      sync.Mutex
	servers map[redis.UniversalClient]*server // with calls in flight
}

type server struct {
	inFlight int       // lanes in use
	progress int       // batches that ended without a timeout
	waiting  []waiting // by deadline; none while a lane is free
}

// A waiting call waits for a lane.
type waiting struct {
	redis.Cmder

	deadline time.Time
	turn     chan bool // receives true if the caller has a lane, or false if the call has its result
}

// A Call is a command on a key that is sent once. A cluster client would repeat a command that
// timed out, though Redis may have executed it.
type Call struct {
	*redis.StringCmd

	key             string
	mayHaveBeenSent bool // the client may have written it to a connection
}

// NewCall returns a call of a command with its arguments, the fourth of which is the key.
func NewCall(ctx context.Context, key string, args ...any) *Call {
	c := &Call{StringCmd: redis.NewStringCmd(ctx, args...), key: key}
	c.SetFirstKeyPos(3)
	return c
}

// NoRetry implements a part of [redis.Cmder].
func (*Call) NoRetry() bool { return true }

// Args implements a part of [redis.Cmder]. The client calls it when it writes the command to a
// connection.
func (c *Call) Args() []any {
	c.mayHaveBeenSent = true
	return c.StringCmd.Args()
}

// MayHaveBeenSent reports whether a server may have received the call.
func (c *Call) MayHaveBeenSent() bool { return c.mayHaveBeenSent }

// ProcessCall sends a [Call] to the server of its key within the deadline of ctx, with other calls
// if many are made at once. It returns the error of the call. It is a [redis.ProcessHook].
func (c *Client) ProcessCall(ctx context.Context, cmd redis.Cmder) error {
	b, call := &c.batcher, cmd.(*Call) //nolint:forcetypeassert // by contract
	call.mayHaveBeenSent = false       // a hook may have called Args before; the client calls it again
	cluster, is := c.UniversalClient.(*redis.ClusterClient)
	if !is {
		b.sendOrWait(ctx, c.UniversalClient, call)
		return call.Err()
	}
	master, err := cluster.MasterForKey(ctx, call.key)
	if err != nil {
		return fmt.Errorf("find the server of a key: %w", err)
	}
	b.sendOrWait(ctx, master, call)
	if !isElsewhere(call.Err()) {
		return call.Err()
	}
	return cluster.Process(ctx, call) // follows redirects
}

// isElsewhere reports whether a server has not executed a call because it does not have the key, or
// has left the cluster.
func isElsewhere(err error) bool {
	return redis.HasErrorPrefix(err, "MOVED") || redis.HasErrorPrefix(err, "ASK") ||
		redis.HasErrorPrefix(err, "READONLY") ||
		errors.Is(err, redis.ErrClosed)
}

// sendOrWait sends a call, alone or in a batch, or lets another caller send it. Then it has its
// result.
func (b *batcher) sendOrWait(ctx context.Context, client redis.UniversalClient, c redis.Cmder) {
	s, progressBefore, turn := b.enter(ctx, client, c)
	var others []waiting // whose calls this caller sends too
	if turn != nil {     // no lane was free
		if hasLane := <-turn; !hasLane { // another caller has set the result
			return
		}
		b.mu.Lock()
		n := min(len(s.waiting), maxBatch-1)
		others, s.waiting, progressBefore = s.waiting[:n:n], s.waiting[n:], s.progress
		b.mu.Unlock()
	}
	defer func() {
		for _, w := range others {
			w.turn <- false
		}
		b.release(client, s, !TimedOut(c.Err()), progressBefore)
	}()
	if len(others) == 0 {
		_ = client.Process(ctx, c)
		return
	}
	batch, calls := client.Pipeline(), []redis.Cmder{c}
	for _, w := range others {
		calls = append(calls, w.Cmder)
	}
	_ = batch.BatchProcess(ctx, calls...)
	_, _ = batch.Exec(ctx) // each call has its error
}

// enter takes a lane of the server, and returns its progress. If no lane is free, it adds the call
// to the waiting ones and returns its turn.
func (b *batcher) enter(
	ctx context.Context, client redis.UniversalClient, c redis.Cmder,
) (_ *server, progress int, turn <-chan bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.servers[client]
	if s == nil {
		s = new(server)
		b.servers[client] = s
	}
	if s.inFlight < lanes {
		s.inFlight++
		return s, s.progress, nil
	}
	w := waiting{Cmder: c, turn: make(chan bool, 1)}
	w.deadline, _ = ctx.Deadline()
	i, _ := slices.BinarySearchFunc(s.waiting, w.deadline,
		func(w waiting, t time.Time) int { return w.deadline.Compare(t) })
	s.waiting = slices.Insert(s.waiting, i, w)
	return s, 0, w.turn
}

// release passes a lane on, or frees it. The server is stuck if neither this batch nor another one
// has ended in time since this batch began; then the waiting calls fail unsent.
func (b *batcher) release(client redis.UniversalClient, s *server, inTime bool, progressBefore int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if inTime {
		s.progress++
	}
	stuck := s.progress == progressBefore
	for len(s.waiting) > 0 {
		w := s.waiting[0]
		s.waiting = s.waiting[1:]
		if !stuck && time.Until(w.deadline) >= b.minTime {
			w.turn <- true
			return
		}
		w.SetErr(errQueued)
		w.turn <- false
	}
	if s.inFlight--; s.inFlight == 0 {
		delete(b.servers, client)
	}
}

// TimedOut reports whether a call failed because there was no answer in time.
func TimedOut(err error) bool {
	network, ok := errors.AsType[net.Error](err)
	return ok && network.Timeout() || errors.Is(err, context.DeadlineExceeded)
}
