package service

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"opsgate/cmd/internal/backend/store"
	"opsgate/cmd/internal/backend/store/query"
)

// Defaults of the options.
const (
	defaultHeartbeat      = 10 * time.Second
	defaultRevocationPoll = 250 * time.Millisecond
)

// Options are the settings of a backend.
type Options struct {
	// DataDir holds the database. Open creates it if it does not exist. Several backends and processes may share it.
	DataDir string
	// Clock returns the time; nil means time.Now.
	Clock func() time.Time
	// ClockRunsAhead marks the database: times of its rows may be far ahead of other clocks, and are followed nevertheless.
	ClockRunsAhead bool
	// WallClock returns the time for deliveries and the expiry of webhook secrets, which do not follow a Clock that runs fast; nil means
	// time.Now.
	WallClock func() time.Time
	// Logger receives a record for each finished call; nil discards them.
	Logger *slog.Logger
	// Heartbeat is the time without a message after which a revocation stream sends a heartbeat; 0 means ten seconds.
	Heartbeat time.Duration
	// RevocationPoll is the interval at which a stream reads revocations of other processes; 0 means 250 ms.
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
	store          *store.Store
	clock          func() time.Time
	wallClock      func() time.Time
	logger         *slog.Logger
	heartbeat      time.Duration
	revocationPoll time.Duration
	reflection     bool
	tls            *tls.Config
	tracer         trace.Tracer
	revoked        *signal
	written        *signal // raised after each transaction that writes notifications
	inFlight       *keySet
	damageReported atomic.Int64 // when, in nanoseconds
}

// Open opens the database, and creates it if it does not exist.
func Open(ctx context.Context, options Options) (*Backend, error) {
	data, err := store.Open(ctx, options.DataDir)
	if err != nil {
		return nil, fmt.Errorf("open the backend's store: %w", err)
	}
	if options.ClockRunsAhead {
		if err := data.Write(ctx, func(q *query.Queries) error { return q.SetClockRunsAhead(ctx) }); err != nil {
			return nil, errors.Join(fmt.Errorf("mark the database: %w", err), data.Close())
		}
	}
	b := &Backend{
		store:          data,
		clock:          options.Clock,
		wallClock:      options.WallClock,
		logger:         options.Logger,
		heartbeat:      options.Heartbeat,
		revocationPoll: options.RevocationPoll,
		reflection:     options.Reflection,
		tls:            options.TLS,
		revoked:        newSignal(),
		written:        newSignal(),
		inFlight:       newKeySet(),
	}
	if b.clock == nil {
		b.clock = time.Now
	}
	if b.wallClock == nil {
		b.wallClock = time.Now
	}
	if b.logger == nil {
		b.logger = slog.New(slog.DiscardHandler)
	}
	traces := options.TracerProvider
	if traces == nil {
		traces = noop.NewTracerProvider()
	}
	b.tracer = traces.Tracer("opsgate/cmd/internal/backend/service")
	if b.heartbeat == 0 {
		b.heartbeat = defaultHeartbeat
	}
	if b.revocationPoll == 0 {
		b.revocationPoll = defaultRevocationPoll
	}
	return b, nil
}

// Store returns the store, for callers that insert data.
func (b *Backend) Store() *store.Store { return b.store }

// Written returns a channel that is closed after the next transaction of this process that may have written a notification. Transactions
// of other processes do not close it.
func (b *Backend) Written() <-chan struct{} { return b.written.wait() }

// Close closes the database. Serve must have returned.
func (b *Backend) Close() error { return b.store.Close() }
