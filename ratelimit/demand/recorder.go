package demand

import (
	"context"
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

// Options are the options of a Recorder. All but Clock are required.
type Options struct {
	Path       string           // of the newer file; the older one is Path + ".1"
	Sample     float64          // part of all tokens: more than 0, at most 1
	MaxBytes   int64            // of both files together; at least MinBytes
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
	writer  *writer // used by Run alone, except overflowed
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
		clock: o.Clock, logger: o.Logger, metrics: m, headerBytes: len(header),
	}
	if err := w.ring.open(); err != nil {
		return nil, fmt.Errorf("open the record of demand: %w", err)
	}
	return &Recorder{sample: newSample(o.Sample), queue: make(chan Event, queueSize), clock: o.Clock, writer: w, metrics: m}, nil
}

// sampled reports whether the token is in the sample.
func (r *Recorder) sampled(tokenID string) bool { return r != nil && r.sample.contains(tokenID) }

// Decided records a request and its decision under the policy. It never blocks.
func (r *Recorder) Decided(tokenID, teamID string, p *ratelimit.Policy, d *ratelimit.Decision) {
	if !r.sampled(tokenID) {
		return
	}
	e := Event{At: d.At, TokenID: tokenID, TeamID: teamID, Allowed: d.Allowed, Local: d.Local, Cached: d.Cached, Policy: p}
	if !d.Allowed {
		e.Denied, e.RetryAfter = p.Limits()[d.DeniedBy].Name, d.RetryAfter
	}
	r.record(&e)
}

// Refunded records that an admission was refunded now. It never blocks.
func (r *Recorder) Refunded(tokenID string, d *ratelimit.Decision) {
	if d.Allowed && r.sampled(tokenID) {
		r.record(&Event{At: r.notBefore(d.At), TokenID: tokenID, RefundOf: d.At})
	}
}

// Reset records that the usage of a token was dropped now. It never blocks.
func (r *Recorder) Reset(tokenID string) {
	if r.sampled(tokenID) {
		r.record(&Event{At: r.clock(), TokenID: tokenID, Reset: true})
	}
}

// notBefore returns the current time, or t if it is later, as the store's clock may be ahead.
func (r *Recorder) notBefore(t time.Time) time.Time {
	if now := r.clock(); now.After(t) {
		return now
	}
	return t
}

func (r *Recorder) record(e *Event) {
	if len(e.TokenID) > maxID || len(e.TeamID) > maxID {
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
			r.writer.flush()
		case <-ctx.Done():
			for range len(r.queue) {
				e := <-r.queue
				r.writer.add(&e)
			}
			r.writer.flush()
			return nil
		}
	}
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
