package gateway

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"opsgate/internal/shares"
)

const (
	// StreamWindow is the flow control window of an HTTP/2 stream: the bytes of an unread body that
	// net/http keeps.
	StreamWindow = 64 << 10
	// streamCost is accounted for an HTTP/2 stream whose body arrives, in addition to the buffer of
	// the body: for the window, the stack of the goroutine and the stream. Over HTTP/1.1 the
	// connection has this memory anyway.
	streamCost = StreamWindow + 16<<10
)

// arrivingBodies accounts the memory of request bodies, from when they arrive until they are
// decoded. Each team has a share of this memory (package shares). A body that needs more than is
// free for its team waits, unread, until earlier bodies have ended. An HTTP/2 stream past the share
// of its team is refused, because a stream uses memory even while its body waits.
//
// If the bodies of a team together reach its share, all of them would wait for each other. So one
// body at a time, in the whole gateway, may exceed the share of its team.
type arrivingBodies struct {
	limit   int64 // of all buffers together, and of all streams together
	streams shares.Pool

	mu        sync.Mutex
	buffers   shares.Pool
	waiting   []*arrivingBody // in the order in which they began to wait
	pastShare *arrivingBody   // the body that may exceed the share; nil for none
}

// An arrivingBody is the memory of one body. Request has one, which is reused after end.
type arrivingBody struct {
	team           string
	stream         int64         // streamCost over HTTP/2
	bytes          int64         // part of the buffer within the share of the team
	bytesPastShare int64         // part of the buffer past the share
	wanted         int64         // the bytes that a waiting body needs
	granted        chan struct{} // closed when the wanted bytes are accounted
}

// errNoMemory is the cause of a 408 for a body that was not read.
var errNoMemory = errors.New("bodies that are arriving take all of the memory for them, or the team's share of it")

// begin accounts the stream of a body that begins to arrive, or returns errNoMemory.
func (a *arrivingBodies) begin(b *arrivingBody, team string, http2 bool) error {
	b.team = team
	if !http2 {
		return nil
	}
	if a.streams.Take(team, streamCost, a.limit) != shares.Taken {
		return errNoMemory
	}
	b.stream = streamCost
	return nil
}

// grow accounts a buffer of the given size for a body, and waits until the additional bytes are
// free. It returns errNoMemory at the deadline, or the error of the context when that ends.
func (a *arrivingBodies) grow(ctx context.Context, b *arrivingBody, size int64, deadline time.Time) error {
	if !a.takeOrQueue(b, size-b.bytes-b.bytesPastShare) {
		return nil
	}
	timer := time.NewTimer(time.Until(deadline))
	defer timer.Stop()
	var err error
	select {
	case <-b.granted:
		return nil
	case <-timer.C:
		err = errNoMemory
	case <-ctx.Done():
		err = ctx.Err()
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if i := slices.Index(a.waiting, b); i >= 0 { // otherwise it was granted meanwhile; end releases it
		a.waiting = slices.Delete(a.waiting, i, i+1)
	}
	return err
}

// takeOrQueue accounts n more bytes of a buffer. If they are not free, it queues the body and
// returns true.
func (a *arrivingBodies) takeOrQueue(b *arrivingBody, n int64) (waits bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.take(b, n) {
		return false
	}
	b.wanted, b.granted = n, make(chan struct{})
	a.waiting = append(a.waiting, b)
	return true
}

// take accounts n more bytes of a buffer, or returns false if they are not free. The caller holds
// a.mu.
func (a *arrivingBodies) take(b *arrivingBody, n int64) bool {
	switch a.buffers.Take(b.team, n, a.limit) {
	case shares.Taken:
		b.bytes += n
		return true
	case shares.ShareReached:
		if a.pastShare == nil {
			a.pastShare = b
		}
		if a.pastShare == b {
			a.buffers.Take("", n, a.limit) // succeeds: enough is free
			b.bytesPastShare += n
			return true
		}
	case shares.Exhausted:
	}
	return false
}

// end releases the memory of a body that is not kept any more, and grants it to waiting bodies. It
// is idempotent.
func (a *arrivingBodies) end(b *arrivingBody) {
	if b.stream > 0 {
		a.streams.Release(b.team, b.stream)
		b.stream = 0
	}
	if b.bytes+b.bytesPastShare == 0 {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.buffers.Release(b.team, b.bytes)
	a.buffers.Release("", b.bytesPastShare)
	b.bytes, b.bytesPastShare = 0, 0
	if a.pastShare == b {
		a.pastShare = nil
	}
	a.waiting = slices.DeleteFunc(a.waiting, func(w *arrivingBody) bool {
		taken := a.take(w, w.wanted)
		if taken {
			close(w.granted)
		}
		return taken
	})
}
