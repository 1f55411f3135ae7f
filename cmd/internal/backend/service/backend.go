package service

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"opsgate/cmd/internal/backend/store"
	"opsgate/internal/logging"
)

// Defaults of the options.
const (
	defaultHeartbeat      = 10 * time.Second
	defaultRevocationPoll = 250 * time.Millisecond
)

// Options are the settings of a backend.
type Options struct {
	// DataDir holds the database. Open creates it if it does not exist. Several backends and
	// processes may share it.
	DataDir string
	// Clock returns the time; nil means time.Now.
	Clock func() time.Time
	// Logger receives a record for each finished call; nil discards them.
	Logger *slog.Logger
	// Heartbeat is the time without a message after which a revocation stream sends a heartbeat; 0
	// means ten seconds.
	Heartbeat time.Duration
	// RevocationPoll is the interval at which a stream reads revocations of other processes; 0
	// means 250 ms.
	RevocationPoll time.Duration
	// TLS is the configuration of Serve; nil for plaintext.
	TLS *tls.Config
	// Reflection serves gRPC reflection, which describes every method to any client.
	Reflection bool
	// TracerProvider records a span for each call that belongs to a trace; nil records nothing.
	TracerProvider trace.TracerProvider
}

// A Backend is the operations backend on one data directory.
type Backend struct {
	options   Options // with their defaults
	store     *store.Store
	recurring *slog.Logger // of failures that each call may find
	tracer    trace.Tracer
	revoked   *signal
	written   *signal  // raised after each transaction that writes notifications
	inFlight  sync.Map // the teamKeys of calls in progress
}

// Open opens the database, and creates it if it does not exist.
func Open(ctx context.Context, options Options) (*Backend, error) {
	if options.Clock == nil {
		options.Clock = time.Now
	}
	options.Logger = cmp.Or(options.Logger, slog.New(slog.DiscardHandler))
	options.TracerProvider = cmp.Or[trace.TracerProvider](options.TracerProvider, noop.NewTracerProvider())
	options.Heartbeat = cmp.Or(options.Heartbeat, defaultHeartbeat)
	options.RevocationPoll = cmp.Or(options.RevocationPoll, defaultRevocationPoll)
	data, err := store.Open(ctx, options.DataDir)
	if err != nil {
		return nil, fmt.Errorf("open the backend's store: %w", err)
	}
	return &Backend{
		options: options, store: data, recurring: logging.Recurring(options.Logger, options.Clock),
		tracer:  options.TracerProvider.Tracer("opsgate/cmd/internal/backend/service"),
		revoked: newSignal(), written: newSignal(),
	}, nil
}

// Store returns the store, for callers that insert data.
func (b *Backend) Store() *store.Store { return b.store }

// Written returns a channel that is closed after the next transaction of this process that may have
// written a notification. Transactions of other processes do not close it.
func (b *Backend) Written() <-chan struct{} { return b.written.wait() }

// Close closes the database. Serve must have returned.
func (b *Backend) Close() error { return b.store.Close() }
