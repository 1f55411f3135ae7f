package waits

import (
	"context"
	"time"
)

// A Part is something that a request may have to wait for.
type Part int

// The parts.
const (
	Identity Part = iota // the look-up of a token that is not remembered
	Limiter              // the shared store of rate limits
	Service              // the internal service that answers
	Parts                // how many there are
)

// Waits are what one request waited for. They belong to the goroutine that serves it.
type Waits struct {
	// Retries is how often a call of a service was made again.
	Retries int

	took [Parts]time.Duration
}

// Key is the key of a context's *[Waits].
type Key struct{}

// Of returns what the context carries, or nil, which takes everything and keeps nothing.
func Of(ctx context.Context) *Waits {
	w, _ := ctx.Value(Key{}).(*Waits)
	return w
}

// Apart returns a context for what may go on when the request is over, and so must not add to its waits.
func Apart(ctx context.Context) context.Context { return context.WithValue(ctx, Key{}, nil) }

// Add adds a wait for a part.
func (w *Waits) Add(part Part, took time.Duration) {
	if w != nil {
		w.took[part] += took
	}
}

// Retry counts one more attempt of a call.
func (w *Waits) Retry() {
	if w != nil {
		w.Retries++
	}
}

// Took returns how long the request waited for a part; 0 where it did not.
func (w *Waits) Took(part Part) time.Duration { return w.took[part] }
