package refbackend

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"opsgate/cmd/internal/refbackend/store"
)

// Defaults of the options that have one.
const (
	DefaultHeartbeat      = 10 * time.Second
	DefaultRevocationPoll = 250 * time.Millisecond
)

// Options are what a backend is made of.
type Options struct {
	// DataDir holds the database; it is made if it does not exist. Several backends, in one process or many, may share one.
	DataDir string
	// Clock tells the time; nil means the system's.
	Clock func() time.Time
	// Logger receives a record for each finished call; nil discards them.
	Logger *slog.Logger
	// Heartbeat is how long a stream of revocations may be silent; 0 means DefaultHeartbeat.
	Heartbeat time.Duration
	// RevocationPoll is how often a stream looks for revocations that another process wrote; 0 means DefaultRevocationPoll.
	RevocationPoll time.Duration
	// Reflection serves gRPC reflection, which describes every method to any client.
	Reflection bool
}

// A Backend is the operations backend on one data directory.
type Backend struct {
	store          *store.Store
	clock          func() time.Time
	logger         *slog.Logger
	heartbeat      time.Duration
	revocationPoll time.Duration
	reflection     bool
	revoked        *signal
	inFlight       *keySet
}

// Open opens the backend's data, and lays the schema into an empty directory.
func Open(ctx context.Context, options Options) (*Backend, error) {
	data, err := store.Open(ctx, options.DataDir)
	if err != nil {
		return nil, fmt.Errorf("open the backend's store: %w", err)
	}
	b := &Backend{
		store:          data,
		clock:          options.Clock,
		logger:         options.Logger,
		heartbeat:      options.Heartbeat,
		revocationPoll: options.RevocationPoll,
		reflection:     options.Reflection,
		revoked:        newSignal(),
		inFlight:       newKeySet(),
	}
	if b.clock == nil {
		b.clock = time.Now
	}
	if b.logger == nil {
		b.logger = slog.New(slog.DiscardHandler)
	}
	if b.heartbeat == 0 {
		b.heartbeat = DefaultHeartbeat
	}
	if b.revocationPoll == 0 {
		b.revocationPoll = DefaultRevocationPoll
	}
	return b, nil
}

// Store is where the backend keeps its data, for those who lay data into it.
func (b *Backend) Store() *store.Store { return b.store }

// Close lets go of the data. Whoever serves must have stopped.
func (b *Backend) Close() error { return b.store.Close() }
