package logging

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"opsgate/internal/pulse"
)

// reportEvery is how often suppressed lines are reported, if their bound is for a shorter time.
const reportEvery = time.Second

// LimiterOptions are the dependencies of a Limiter. All are required.
type LimiterOptions struct {
	Logger     *slog.Logger     // of the lines that report suppressed ones
	Clock      func() time.Time // only differences matter, so that a monotonic clock can be used
	Registerer prometheus.Registerer
	Service    string // prefix of the metric's name: "opsgate"
}

// A Limiter bounds the log lines of several kinds in any interval of a kind's length. A metric
// counts suppressed lines, and Run reports them with a line per kind and second, or interval if
// that is longer.
type Limiter struct {
	logger     *slog.Logger
	clock      func() time.Time
	start      time.Time
	suppressed *prometheus.CounterVec
	kinds      []*Lines
}

// NewLimiter returns a Limiter without any kind of lines, and registers its metric.
func NewLimiter(o LimiterOptions) (*Limiter, error) {
	l := &Limiter{
		logger: o.Logger, clock: o.Clock, start: o.Clock(),
		suppressed: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: o.Service + "_log_lines_suppressed_total",
			Help: "Log lines that were suppressed because too many of their kind came.",
		}, []string{"kind"}),
	}
	if err := o.Registerer.Register(l.suppressed); err != nil {
		return nil, fmt.Errorf("register the metric of suppressed log lines: %w", err)
	}
	return l, nil
}

// Lines adds a kind of which at most perSecond lines are logged in any interval of a second,
// whatever their causes. It must not be called while Run runs.
func (l *Limiter) Lines(kind string, perSecond int) *Lines {
	return l.add(&Lines{shared: newWindow(perSecond, time.Second), per: time.Second, kind: kind})
}

// LinesPerCause adds a kind of which at most n lines of each cause are logged in any interval of a
// length, so that a frequent cause never suppresses the lines of another one. It must not be called
// while Run runs.
func (l *Limiter) LinesPerCause(kind string, n int, per time.Duration) *Lines {
	return l.add(&Lines{most: n, per: per, kind: kind})
}

func (l *Limiter) add(n *Lines) *Lines {
	n.total = l.suppressed.WithLabelValues(n.kind)
	n.elapsed = func() time.Duration { return l.clock().Sub(l.start) }
	l.kinds = append(l.kinds, n)
	return n
}

// Run reports suppressed lines until ctx ends, and then once more. It logs nothing if no line was
// suppressed.
func (l *Limiter) Run(ctx context.Context) error {
	tick := pulse.New(reportEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			tick.Again()
			l.report(false)
		case <-ctx.Done():
			l.report(true)
			return nil
		}
	}
}

// report reports the suppressed lines of each kind whose last report is an interval ago, or of all
// kinds.
func (l *Limiter) report(all bool) {
	now := l.clock().Sub(l.start)
	for _, n := range l.kinds {
		if !all && now < n.nextReport {
			continue
		}
		total, causes := n.drain()
		if total == 0 {
			continue
		}
		n.nextReport = now + n.per - reportEvery // the tick after it
		attrs := []slog.Attr{slog.String("kind", n.kind), slog.Uint64("lines", total)}
		if len(causes) > 0 {
			attrs = append(attrs, slog.GroupAttrs("causes", causes...))
		}
		l.logger.LogAttrs(context.Background(), slog.LevelWarn, "log lines suppressed", attrs...)
	}
}

// Lines are the log lines of one kind. A nil *Lines has no bound. Its methods are safe for
// concurrent use.
type Lines struct {
	kind    string
	per     time.Duration
	shared  *window // of all causes; nil if each cause has its own
	most    int     // of each cause that has its own window
	elapsed func() time.Duration
	total   prometheus.Counter // nil for none
	causes  sync.Map           // of *causeLines by cause

	nextReport time.Duration // elapsed; used by Run alone
}

// causeLines are the lines of one cause.
type causeLines struct {
	window     *window
	suppressed atomic.Uint64 // since the last report
}

// Allow reports whether a line may be logged now, and counts it as logged or as suppressed. Causes
// are a closed set: each takes memory for as long as the process lives. The cause is "" for lines
// that have none.
func (n *Lines) Allow(cause string) bool {
	if n == nil {
		return true
	}
	c := n.of(cause)
	if c.window.allow(n.elapsed()) {
		return true
	}
	if c.suppressed.Add(1); n.total != nil {
		n.total.Inc()
	}
	return false
}

func (n *Lines) of(cause string) *causeLines {
	found, ok := n.causes.Load(cause)
	if !ok {
		added := &causeLines{window: n.shared}
		if added.window == nil {
			added.window = newWindow(n.most, n.per)
		}
		found, _ = n.causes.LoadOrStore(cause, added)
	}
	c, _ := found.(*causeLines) // the map has only this type
	return c
}

// drain returns the number of lines suppressed since the last call, and the number of each cause
// with a name.
func (n *Lines) drain() (total uint64, causes []slog.Attr) {
	counts := map[string]uint64{}
	for key, value := range n.causes.Range {
		cause, _ := key.(string)
		c, _ := value.(*causeLines)
		if count := c.suppressed.Swap(0); count > 0 {
			counts[cause] = count
			total += count
		}
	}
	for _, cause := range slices.Sorted(maps.Keys(counts)) {
		if cause != "" {
			causes = append(causes, slog.Uint64(cause, counts[cause]))
		}
	}
	return total, causes
}

// Handler returns a handler that calls next for records within the bound, and for all below level
// info. If each cause has its own bound, the message of a record is its cause: messages must be
// constants.
func (n *Lines) Handler(next slog.Handler) slog.Handler { return bounded{next, n} }

// bounded is a handler of lines of one kind.
type bounded struct {
	slog.Handler

	lines *Lines
}

// Handle calls the next handler or counts the record as suppressed.
func (b bounded) Handle(ctx context.Context, r slog.Record) error {
	cause := ""
	if b.lines != nil && b.lines.shared == nil {
		cause = r.Message
	}
	if r.Level >= slog.LevelInfo && !b.lines.Allow(cause) {
		return nil
	}
	return b.Handler.Handle(ctx, r)
}

// WithAttrs returns a handler that adds attributes.
func (b bounded) WithAttrs(attrs []slog.Attr) slog.Handler {
	return bounded{b.Handler.WithAttrs(attrs), b.lines}
}

// WithGroup returns a handler that puts attributes into a group.
func (b bounded) WithGroup(name string) slog.Handler {
	return bounded{b.Handler.WithGroup(name), b.lines}
}

// A window admits a number of lines in any interval of a length. Suppressed lines take no lock.
type window struct {
	per         time.Duration
	closedUntil atomic.Int64 // elapsed nanoseconds; lines before are suppressed

	mu   sync.Mutex
	last []int64 // when the last lines were admitted, in elapsed nanoseconds: a ring
	next int     // index of the oldest
}

func newWindow(lines int, per time.Duration) *window {
	w := &window{per: per, last: make([]int64, lines)}
	for i := range w.last {
		w.last[i] = -int64(per)
	}
	return w
}

// allow admits a line if fewer than the number were admitted within the last interval.
func (w *window) allow(elapsed time.Duration) bool {
	now := int64(elapsed)
	if now < w.closedUntil.Load() {
		return false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if now < w.last[w.next]+int64(w.per) { // a concurrent call admitted a line
		return false
	}
	w.last[w.next] = now
	w.next = (w.next + 1) % len(w.last)
	w.closedUntil.Store(w.last[w.next] + int64(w.per))
	return true
}

// repeatedLines is the maximum number of lines with the same text in any minute.
const repeatedLines = 20

// NewRepeated returns a logger for the backend, which bounds the lines of each text: clients,
// receivers of notifications and a database that fails can cause a line for each call, attempt or
// tick. Texts must be constants. The Limiter reports the suppressed lines while it runs.
func NewRepeated(
	out slog.Handler, clock func() time.Time, registry prometheus.Registerer,
) (*slog.Logger, *Limiter, error) {
	limiter, err := NewLimiter(LimiterOptions{Logger: slog.New(out), Clock: clock, Registerer: registry,
		Service: "opsbackend"})
	if err != nil {
		return nil, nil, err
	}
	return slog.New(limiter.LinesPerCause("repeated", repeatedLines, time.Minute).Handler(out)), limiter, nil
}

// Recurring returns a logger that writes each text at most once in any minute: for failures that
// recur with each call or tick. Texts must be constants. Suppressed lines are not counted.
func Recurring(out *slog.Logger, clock func() time.Time) *slog.Logger {
	start := clock()
	lines := &Lines{most: 1, per: time.Minute, elapsed: func() time.Duration { return clock().Sub(start) }}
	return slog.New(lines.Handler(out.Handler()))
}
