package delivery

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gofrs/flock"
	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"opsgate/cmd/internal/backend/store"
	"opsgate/internal/logging"
)

const (
	// lockInterval is how often a second dispatcher tries to take over.
	lockInterval = 250 * time.Millisecond
	// grace is how long attempts in progress may take after ctx has ended; after it, their contexts
	// end.
	grace = 5 * time.Second
	// lastWrites is how long after the grace period results may wait for other writers. Messages
	// without a stored result are sent again.
	lastWrites = 5 * time.Second
)

// Options are the settings of a dispatcher.
type Options struct {
	// Senders are the senders by channel: email, webhook. The deliveries of other channels wait.
	Senders map[string]Sender
	// Clock returns the time; nil means time.Now.
	Clock func() time.Time
	// Logger receives failed attempts and dead letters; nil discards them.
	Logger *slog.Logger
	// Wake returns a channel that is closed when there may be a new delivery. Without it, the
	// dispatcher looks once a second.
	Wake func() <-chan struct{}
	// Registerer receives the metrics; nil means none.
	Registerer prometheus.Registerer
	// Random returns numbers in [0, 1) for the jitter of retries, and is safe for concurrent use;
	// nil means math/rand/v2.
	Random func() float64
	// TracerProvider receives a span for each attempt; nil means none.
	TracerProvider trace.TracerProvider
}

// A Dispatcher sends the deliveries in a store, by a pool of workers for each channel.
type Dispatcher struct {
	data     *store.Store
	options  Options
	tracer   trace.Tracer
	attempts *prometheus.CounterVec
	now      func() int64 // of deliveries

	recurring *slog.Logger // of failures of the database

	// abandon ends attempts and writes at once, for tests: what a kill of the process does.
	abandon atomic.Pointer[context.CancelFunc]
}

// New returns a dispatcher for the deliveries in a store. It registers its metrics.
func New(data *store.Store, options Options) *Dispatcher {
	if options.Clock == nil {
		options.Clock = time.Now
	}
	options.Logger = cmp.Or(options.Logger, slog.New(slog.DiscardHandler))
	if options.Wake == nil {
		options.Wake = func() <-chan struct{} { return nil }
	}
	if options.Random == nil {
		options.Random = rand.Float64
	}
	options.TracerProvider = cmp.Or[trace.TracerProvider](options.TracerProvider, noop.NewTracerProvider())
	return &Dispatcher{
		data:     data,
		options:  options,
		tracer:   options.TracerProvider.Tracer("opsgate/cmd/internal/backend/delivery"),
		attempts: newAttempts(data, options),
		now:      func() int64 { return options.Clock().UnixNano() },

		recurring: logging.Recurring(options.Logger, options.Clock),
	}
}

// Run sends deliveries until ctx ends; it then waits up to five seconds for attempts in progress,
// up to five more until their results are written, and returns nil. It may be called once. While
// another dispatcher runs on the same data directory, Run waits for its end.
func (d *Dispatcher) Run(ctx context.Context) error {
	lock := flock.New(filepath.Join(d.data.Dir(), "delivery.lock"), flock.SetPermissions(0o600))
	if err := d.lock(ctx, lock); err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return fmt.Errorf("lock the deliveries: %w", err)
	}
	defer lock.Close()

	work, abandon := context.WithCancel(context.WithoutCancel(ctx))
	defer abandon()
	d.abandon.Store(&abandon)
	defer context.AfterFunc(ctx, func() {
		select {
		case <-work.Done():
		case <-time.After(grace + lastWrites):
			abandon()
		}
	})()
	var group sync.WaitGroup
	for channel, sender := range d.options.Senders {
		group.Go(func() { d.newPool(channel, sender).run(ctx, work) })
	}
	group.Wait()
	return nil
}

// lock waits for the lock. It is released when the process ends, however it ends.
func (d *Dispatcher) lock(ctx context.Context, lock *flock.Flock) error {
	locked, err := lock.TryLock()
	if err != nil || locked {
		return err
	}
	d.options.Logger.InfoContext(ctx, "another process sends the deliveries of this data directory: waiting for its end")
	if _, err = lock.TryLockContext(ctx, lockInterval); err == nil { // then it is locked
		d.options.Logger.InfoContext(ctx, "sending the deliveries of this data directory")
	}
	return err
}
