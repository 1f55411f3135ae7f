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
	// MinBytes is the least size of a record.
	MinBytes = 1 << 20

	queueSize  = 8192
	flushEvery = time.Second
	maxID      = 1024 // bytes of an id; longer ones are not recorded
)

// Options are what a Recorder is made of.
type Options struct {
	Path       string           // of the file; the older part is beside it, with .1 at its end
	Sample     float64          // part of the tokens, more than 0 and at most 1
	MaxBytes   int64            // of both files together; at least MinBytes
	Clock      func() time.Time // of refunds and resets, and for when to complain again; nil for time.Now
	Logger     *slog.Logger
	Registerer prometheus.Registerer
}

// A Recorder records the requests of some tokens. It is safe for concurrent use; a nil one records nothing.
type Recorder struct {
	sample  sample
	queue   chan Event
	clock   func() time.Time
	writer  *writer // of Run alone
	metrics *metrics
}

// NewRecorder opens the record, or makes one that only its user can read.
func NewRecorder(o Options) (*Recorder, error) {
	switch {
	case !(o.Sample > 0 && o.Sample <= 1): // the other way round, it would take NaN
		return nil, fmt.Errorf("the sample of tokens must be more than 0 and at most 1, not %v", o.Sample)
	case o.MaxBytes < MinBytes:
		return nil, fmt.Errorf("a record of demand takes at least %d bytes, not %d", MinBytes, o.MaxBytes)
	case o.Clock == nil:
		o.Clock = time.Now
	}
	m, err := newMetrics(o.Registerer)
	if err != nil {
		return nil, err
	}
	w := &writer{
		ring:  &ring{path: o.Path, half: o.MaxBytes / 2, header: appendHeader(nil, o.Sample)},
		clock: o.Clock, logger: o.Logger, metrics: m,
	}
	if err := w.ring.open(); err != nil {
		return nil, fmt.Errorf("open the record of demand: %w", err)
	}
	return &Recorder{sample: newSample(o.Sample), queue: make(chan Event, queueSize), clock: o.Clock, writer: w, metrics: m}, nil
}

// Record records an event if its token is in the sample. It never waits.
func (r *Recorder) Record(e Event) {
	if r.Samples(e.TokenID) {
		r.record(&e)
	}
}

// Samples says whether the token is in the sample.
func (r *Recorder) Samples(tokenID string) bool { return r != nil && r.sample.has(tokenID) }

// Decided records a decision of a request under the policy.
func (r *Recorder) Decided(tokenID, teamID string, p *ratelimit.Policy, d *ratelimit.Decision) {
	if !r.Samples(tokenID) {
		return
	}
	e := Event{At: d.At, TokenID: tokenID, TeamID: teamID, Allowed: d.Allowed, Local: d.Local, Cached: d.Cached}
	if !d.Allowed {
		e.Denied, e.RetryAfter = p.Limits()[d.Denied].Name, d.RetryAfter
	}
	r.record(&e)
}

// Refunded records that what a decision spent was given back now.
func (r *Recorder) Refunded(tokenID string, d *ratelimit.Decision) {
	if d.Allowed && r.Samples(tokenID) {
		r.record(&Event{At: r.since(d.At), TokenID: tokenID, RefundOf: d.At})
	}
}

// Reset records that what a token had spent was forgotten now.
func (r *Recorder) Reset(tokenID string) {
	if r.Samples(tokenID) {
		r.record(&Event{At: r.clock(), TokenID: tokenID, Reset: true})
	}
}

// since is now, or what a store's clock says was before, where that is ahead.
func (r *Recorder) since(before time.Time) time.Time {
	if now := r.clock(); now.After(before) {
		return now
	}
	return before
}

func (r *Recorder) record(e *Event) {
	if len(e.TokenID) > maxID || len(e.TeamID) > maxID {
		r.metrics.unwritable.Inc()
		return
	}
	select {
	case r.queue <- *e:
	default:
		r.metrics.overflowing.Inc()
		r.writer.overflowed.Add(1)
	}
}

// Run writes what is recorded until ctx ends. It then writes what there is, and returns nil.
func (r *Recorder) Run(ctx context.Context) error {
	tick := time.NewTicker(flushEvery)
	defer tick.Stop()
	for {
		select {
		case e := <-r.queue:
			r.writer.take(&e)
		case <-tick.C:
			r.writer.flush()
		case <-ctx.Done():
			for range len(r.queue) {
				e := <-r.queue
				r.writer.take(&e)
			}
			r.writer.flush()
			return nil
		}
	}
}

// Close closes the record, once Run has ended.
func (r *Recorder) Close() error {
	if r == nil {
		return nil
	}
	if err := r.writer.ring.close(); err != nil {
		return fmt.Errorf("close the record of demand: %w", err)
	}
	return nil
}
