package demand

import (
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"opsgate/ratelimit"
)

const (
	maxBuffered = 64 << 10 // bytes, after which the writer flushes
	maxPolicies = 8 << 10  // bytes of the policies that begin each file, of some twenty
	warnEvery   = time.Minute
)

// A writer buffers lines and writes them to the ring.
type writer struct {
	ring    *ring
	clock   func() time.Time
	logger  *slog.Logger
	metrics *metrics

	lines  []byte  // buffered
	events missing // in lines

	start       []byte                    // of the header, which the gateways and the policies follow
	policies    map[*ratelimit.Policy]int // numbers of the policies in the header
	numbered    int                       // last number
	headerBytes int                       // of the header without policies

	overflowed overflow  // events dropped since the last flush, as the queue was full
	unrecorded missing   // dropped events for which the record has no line yet
	unlogged   uint64    // dropped events for which the log has no line yet
	warned     time.Time // the last warning; zero for none
	failing    bool      // the last write failed
}

// A span is the time from the first event to the last, both included.
type span struct{ from, to time.Time }

// missing is a number of events and their span.
type missing struct {
	n  uint64
	in span
}

func (m *missing) add(other missing) {
	if other.n == 0 {
		return
	}
	if m.n == 0 || other.in.from.Before(m.in.from) {
		m.in.from = other.in.from
	}
	m.n, m.in.to = m.n+other.n, later(m.in.to, other.in.to)
}

// An overflow counts events that the queue has no space for. It is safe for concurrent use.
type overflow struct {
	mu      sync.Mutex
	dropped missing
}

func (o *overflow) add(at time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.dropped.add(missing{1, span{at, at}})
}

// take returns what was added since the last call.
func (o *overflow) take() missing {
	o.mu.Lock()
	defer o.mu.Unlock()
	dropped := o.dropped
	o.dropped = missing{}
	return dropped
}

var errQueueFull = errors.New("events come faster than they can be written")

// add buffers an event, and flushes a full buffer.
func (w *writer) add(e *Event) {
	number := w.number(e.Policy)
	w.lines = appendEvent(w.lines, e, number)
	if w.events.add(missing{1, span{e.At, e.At}}); len(w.lines) >= maxBuffered {
		w.flush()
	}
}

// number returns the number of a policy, and adds a new one to the header of files to come and to the lines. It returns 0 for no policy.
func (w *writer) number(p *ratelimit.Policy) int {
	if p == nil {
		return 0
	}
	if n, ok := w.policies[p]; ok {
		return n
	}
	added := appendPolicy(nil, w.numbered+1, p)
	if len(added) > maxPolicies {
		return 0 // as names of limits are long
	}
	if w.policies == nil || len(w.ring.header)-w.headerBytes+len(added) > maxPolicies {
		w.flush() // a file that these lines begin needs the policies that are dropped now
		w.policies = make(map[*ratelimit.Policy]int)
		w.ring.header = w.ring.header[:w.headerBytes]
	}
	w.numbered++
	w.policies[p] = w.numbered
	w.ring.header = append(w.ring.header, added...)
	w.lines = append(w.lines, added...)
	return w.numbered
}

// setGateways adds the gateways to the header of files to come and to the lines.
func (w *writer) setGateways(at time.Time, g Gateways) {
	added := appendGateways(nil, at, g)
	w.ring.header = slices.Concat(w.start, added, w.ring.header[w.headerBytes:])
	w.headerBytes = len(w.start) + len(added)
	w.lines = append(w.lines, added...)
}

// flush writes the buffered lines. Lines that cannot be written are dropped, so that memory does not grow while a disk is full.
func (w *writer) flush() {
	overflowed, cause := w.overflowed.take(), errQueueFull
	w.unrecorded.add(overflowed)
	dropped := overflowed.n
	if w.unrecorded.n > 0 {
		w.lines = appendDropped(w.lines, w.unrecorded.n, w.unrecorded.in)
	}
	if len(w.lines) == 0 {
		return
	}
	err := w.ring.write(w.lines)
	if err != nil {
		w.metrics.unwritable.Add(float64(w.events.n))
		dropped += w.events.n
		w.unrecorded.add(w.events)
		cause = err
	} else {
		w.metrics.recorded.Add(float64(w.events.n))
		w.unrecorded = missing{}
	}
	w.lines, w.events = w.lines[:0], missing{}
	w.warn(dropped, cause)
	if w.failing && err == nil {
		w.logger.Info("demand is recorded again", slog.String("file", w.ring.path))
	}
	w.failing = err != nil
}

// warn logs at most once a minute that events were dropped.
func (w *writer) warn(dropped uint64, cause error) {
	w.unlogged += dropped
	now := w.clock()
	if w.unlogged == 0 || !w.warned.IsZero() && now.Sub(w.warned) < warnEvery {
		return
	}
	w.logger.Warn("demand is not recorded in full",
		slog.String("file", w.ring.path), slog.Uint64("dropped", w.unlogged), slog.String("cause", cause.Error()))
	w.warned, w.unlogged = now, 0
}
