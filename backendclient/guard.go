package backendclient

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"

	"google.golang.org/grpc"
)

// A guard stands before one service, on the way of every call: it bounds how many are under way, repeats what may be repeated,
// and keeps calls from a service that fails. What it remembers belongs to the service, not to the settings that a call is made
// under.
type guard struct {
	service  string
	inFlight atomic.Int64
	budget   budget
	current  atomic.Pointer[inForce]
	metrics  guardMetrics
	logger   *slog.Logger

	mu sync.Mutex // held to replace what is in force
}

// What is in force are the newest settings that a call has come under, and their breaker.
type inForce struct {
	under   *generation
	breaker *breaker
}

func newGuard(service string, under *generation, metrics guardMetrics, logger *slog.Logger) *guard {
	g := &guard{service: service, metrics: metrics, logger: logger}
	g.current.Store(&inForce{under, newBreaker(under.Breaker, g.changed)})
	g.metrics.breakerIs(BreakerClosed)
	return g
}

// An attempt is what one try of a call takes. It is the same for all tries.
type attempt struct {
	ctx            context.Context
	call           *call
	under          *generation
	method         string
	request, reply any
	connection     *grpc.ClientConn
	invoke         grpc.UnaryInvoker
	options        []grpc.CallOption
}

func (a *attempt) try(ctx context.Context) error {
	return a.invoke(ctx, a.method, a.request, a.reply, a.connection, a.options...)
}

// do makes a call, if there is room for one more.
func (g *guard) do(a *attempt) error {
	defer g.inFlight.Add(-1)
	if n := g.inFlight.Add(1); n > int64(a.under.MaxInFlight) {
		g.metrics.overloaded.Inc()
		return overloaded(a.under.MaxInFlight)
	}
	return g.persist(a)
}

// once makes one attempt, if the breaker lets it.
func (g *guard) once(a *attempt) error {
	err := g.breakerUnder(a.under).do(a)
	if refused, ok := err.(*refusal); ok && refused.reason == ReasonBreakerOpen { //nolint:errorlint // ours, and not wrapped
		g.metrics.broken.Inc()
	}
	return err
}

// breakerUnder returns the breaker of the newest settings. Settings come into force with the first call under them, so clients
// that are made and never used change nothing, and late calls under old settings do not bring those back.
func (g *guard) breakerUnder(under *generation) *breaker {
	current := g.current.Load()
	if current.under.number >= under.number {
		return current.breaker
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if current = g.current.Load(); current.under.number >= under.number {
		return current.breaker
	}
	next := &inForce{under, current.breaker}
	if before := current.breaker; before.settings != under.Breaker {
		next.breaker = newBreaker(under.Breaker, g.changed)
		before.retired.Store(true)
		if before.state.Load().State != BreakerClosed {
			g.changed(*next.breaker.state.Load(), "its settings were changed")
		}
	}
	g.current.Store(next)
	return next.breaker
}

// changed tells of the breaker's new state. The breaker waits for it, and must not be asked anything.
func (g *guard) changed(state BreakerStatus, why string) {
	g.metrics.breakerIs(state.State)
	level := slog.LevelInfo
	if state.State == BreakerOpen {
		level = slog.LevelWarn
	}
	g.logger.Log(context.Background(), level, "circuit breaker is "+string(state.State),
		slog.String("service", g.service), slog.String("because", why))
}

// Reasons of an [Error] that is ours: the call has not been made.
const (
	ReasonBreakerOpen = "BREAKER_OPEN" // the service failed too often; RetryAfter says when it will be tried
	ReasonOverloaded  = "OVERLOADED"   // too many calls to the service are under way
)

func overloaded(limit int) *refusal {
	return &refusal{
		reason: ReasonOverloaded, retryAfter: minRetryAfter,
		text: fmt.Sprintf("%d calls are under way, and no more are made at once", limit),
	}
}
