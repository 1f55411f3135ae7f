package demand

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"opsgate/ratelimit"
)

const (
	// MinBytes is the smallest bound on the size of a record.
	MinBytes = 1 << 20

	queueSize  = 8192
	flushEvery = time.Second
	maxID      = 1024 // bytes of an id; events with longer ones are dropped
)

// Options are the options of a Recorder. All but Gateways, Store and Clock are required.
type Options struct {
	Path       string           // of the newer file; the older one is Path + ".1"
	Sample     float64          // part of all tokens: more than 0, at most 1
	MaxBytes   int64            // of both files together; at least MinBytes
	Gateways   func() Gateways  // that share the limits, now; nil if they are not recorded
	Store      string           // names the store that keeps usage while the gateway does not run; empty if none does
	Clock      func() time.Time // of refunds, resets and log lines; nil for time.Now
	Logger     *slog.Logger
	Registerer prometheus.Registerer
}

// A Recorder records the requests, refunds and resets of the tokens in its sample. It is safe for concurrent use. A nil Recorder records
// nothing.
type Recorder struct {
	sample  sample
	queue   chan Event
	clock   func() time.Time
	writer  *writer // used by Run alone, except overflowed; by End after it
	counted counting
	store   string
	metrics *metrics
}

// NewRecorder opens the record, or creates one that only its owner can read. [Recorder.Run] must run beside the requests.
func NewRecorder(o Options) (*Recorder, error) {
	switch {
	case !(o.Sample > 0 && o.Sample <= 1): // in this form, NaN is refused
		return nil, fmt.Errorf("the sample of tokens must be more than 0 and at most 1, not %v", o.Sample)
	case o.MaxBytes < MinBytes:
		return nil, fmt.Errorf("the bound on a record of demand must be at least %d bytes, not %d", MinBytes, o.MaxBytes)
	case o.Clock == nil:
		o.Clock = time.Now
	}
	m, err := newMetrics(o.Registerer)
	if err != nil {
		return nil, err
	}
	header := appendHeader(nil, o.Sample)
	w := &writer{
		ring:  &ring{path: o.Path, maxFileBytes: o.MaxBytes / 2, header: header},
		clock: o.Clock, logger: o.Logger, metrics: m, start: header, headerBytes: len(header),
	}
	r := &Recorder{
		sample: newSample(o.Sample), queue: make(chan Event, queueSize), clock: o.Clock, writer: w, store: o.Store, metrics: m,
		counted: counting{read: o.Gateways, started: o.Clock()},
	}
	r.count()
	w.lines = w.lines[:0] // the header has them
	if err := w.ring.open(); err != nil {
		return nil, fmt.Errorf("open the record of demand: %w", err)
	}
	if err := w.ring.write(appendLine(nil, &line{Started: &boundary{o.Clock().UTC(), o.Store}})); err != nil {
		return nil, fmt.Errorf("write the record of demand: %w", errors.Join(err, w.ring.close()))
	}
	return r, nil
}

// sampled reports whether the token is in the sample.
func (r *Recorder) sampled(tokenID string) bool { return r != nil && r.sample.contains(tokenID) }

// count records the gateways that share the limits, if they have changed.
func (r *Recorder) count() {
	if at, g, changed := r.counted.next(r.clock()); changed {
		r.writer.setGateways(at, g)
	}
}

// Decided records a request of an operation and its decision under the policy. It never blocks.
func (r *Recorder) Decided(operation, tokenID, teamID string, p *ratelimit.Policy, d *ratelimit.Decision) {
	if !r.sampled(tokenID) {
		return
	}
	e := Event{
		At: d.At, TokenID: tokenID, TeamID: teamID, Operation: operation, Allowed: d.Allowed, Local: d.Local, Cached: d.Cached, Policy: p,
	}
	if !d.Allowed {
		e.Denied, e.RetryAfter = p.Limits()[d.DeniedBy].Name, d.RetryAfter
	}
	r.record(&e)
}

// Refunded records that an admission was refunded now. It never blocks.
func (r *Recorder) Refunded(tokenID string, d *ratelimit.Decision) {
	if d.Allowed && r.sampled(tokenID) { // not before the admission, as the store's clock may be ahead
		r.record(&Event{At: later(r.clock(), d.At), TokenID: tokenID, RefundOf: d.At})
	}
}

// Reset records that the usage of a token was dropped now. It never blocks.
func (r *Recorder) Reset(tokenID string) {
	if r.sampled(tokenID) {
		r.record(&Event{At: r.clock(), TokenID: tokenID, Reset: true})
	}
}

func (r *Recorder) record(e *Event) {
	if len(e.TokenID) > maxID || len(e.TeamID) > maxID || len(e.Operation) > maxID {
		r.metrics.unwritable.Inc()
		return
	}
	select {
	case r.queue <- *e:
	default:
		r.metrics.queueFull.Inc()
		r.writer.overflowed.add(e.At)
	}
}

// Run writes events until ctx ends. Then it writes the events in the queue and returns nil.
func (r *Recorder) Run(ctx context.Context) error {
	tick := time.NewTicker(flushEvery)
	defer tick.Stop()
	for {
		select {
		case e := <-r.queue:
			r.writer.add(&e)
		case <-tick.C:
			r.count()
			r.writer.flush()
		case <-ctx.Done():
			for range len(r.queue) {
				e := <-r.queue
				r.writer.add(&e)
			}
			r.count()
			r.writer.flush()
			return nil
		}
	}
}

// End records that the gateway has ended in order: all that it decided is in the record, and the store lacks no usage. A start within a
// minute is then no interruption. Without a store that keeps usage, or with events that are not recorded, it does nothing. Run must have
// ended.
func (r *Recorder) End() {
	if r == nil || r.store == "" || len(r.queue) > 0 || r.writer.overflowed.take().n+r.writer.unrecorded.n > 0 {
		return
	}
	// If this fails, the next start is an interruption.
	_ = r.writer.ring.write(appendLine(nil, &line{Ended: &boundary{r.clock().UTC(), r.store}}))
}

// Close closes the record. Run must have ended.
func (r *Recorder) Close() error {
	if r == nil {
		return nil
	}
	if err := r.writer.ring.close(); err != nil {
		return fmt.Errorf("close the record of demand: %w", err)
	}
	return nil
}

type metrics struct {
	recorded              prometheus.Counter
	queueFull, unwritable prometheus.Counter // dropped events
}

func newMetrics(registerer prometheus.Registerer) (*metrics, error) {
	recorded := prometheus.NewCounter(prometheus.CounterOpts{
		Name: "opsgate_rate_limit_demand_recorded_total",
		Help: "Requests, refunds and resets that were written to the record of demand.",
	})
	dropped := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "opsgate_rate_limit_demand_dropped_total",
		Help: "Requests, refunds and resets that are missing in the record of demand: they came faster than they could be written" +
			" (queue_full), or could not be written (unwritable).",
	}, []string{"reason"})
	for _, c := range []prometheus.Collector{recorded, dropped} {
		if err := registerer.Register(c); err != nil {
			return nil, fmt.Errorf("register a metric of the record of demand: %w", err)
		}
	}
	return &metrics{
		recorded:   recorded,
		queueFull:  dropped.WithLabelValues("queue_full"),
		unwritable: dropped.WithLabelValues("unwritable"),
	}, nil
}
