package timings

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// A Part is a component for which a request may wait.
type Part int

// The parts.
const (
	Identity Part = iota // the lookup of a token that is not cached
	Limiter              // the shared store of rate limits
	Service              // the internal service that answers
	NumParts
)

// Timings holds the waiting times of one request. Only the goroutine that serves the request may
// use it.
type Timings struct {
	// Retries counts the repeated calls to a service.
	Retries int

	waited [NumParts]time.Duration
}

// ContextKey is the key of a context's *[Timings].
type ContextKey struct{}

// FromContext returns the context's Timings, or nil, on which Add and AddRetry do nothing.
func FromContext(ctx context.Context) *Timings {
	t, _ := ctx.Value(ContextKey{}).(*Timings)
	return t
}

// Detach returns a context without Timings, for work that may outlive the request.
func Detach(ctx context.Context) context.Context { return context.WithValue(ctx, ContextKey{}, nil) }

// Add adds a waiting time.
func (t *Timings) Add(part Part, waited time.Duration) {
	if t != nil {
		t.waited[part] += waited
	}
}

// AddRetry counts a repeated call.
func (t *Timings) AddRetry() {
	if t != nil {
		t.Retries++
	}
}

// Observe adds a duration to a histogram, with the labels of an exemplar unless they are nil.
func Observe(o prometheus.Observer, took time.Duration, exemplar prometheus.Labels) {
	if exemplars, ok := o.(prometheus.ExemplarObserver); ok && exemplar != nil {
		exemplars.ObserveWithExemplar(took.Seconds(), exemplar)
		return
	}
	o.Observe(took.Seconds())
}

// Waited returns how long the request waited for a part.
func (t *Timings) Waited(part Part) time.Duration { return t.waited[part] }
