package backendclient

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	"opsgate/backendclient/timings"
)

const (
	// deadlineMargin is how much earlier than its caller's deadline a call ends, to leave time for the response.
	deadlineMargin = 10 * time.Millisecond
	// defaultTimeout is the timeout of a call whose caller has no deadline.
	defaultTimeout = 5 * time.Second
)

// Reasons of an [Error] for calls that were not made.
const (
	ReasonBreakerOpen = "BREAKER_OPEN" // the service failed too often; RetryAfter is the time until the next probe
	ReasonOverloaded  = "OVERLOADED"   // too many calls to the service are in flight

	// ReasonTeamOverloaded is for a call whose team holds its share of the service's in-flight slots: at least as many as are free.
	ReasonTeamOverloaded = "TEAM_OVERLOADED"
)

// An upstream makes the calls to one service. Its typed client uses it as a [grpc.ClientConnInterface].
//
// One interceptor does everything, because each interceptor costs an allocation per call. All attempts of a call share its deadline and its
// in-flight slot. The duration metric is of calls; the breaker counts attempts.
//
// Streams have no deadline, duration metric or breaker, as they live for days.
//
// A change of the address replaces the connection. The metrics, the retry budget and the calls in flight stay; the breaker is closed.
type upstream struct {
	service    string
	connection atomic.Pointer[connection] // to the current address
	methods    map[string]*method         // by name: "GetServer"
	settings   *atomic.Pointer[settings]
	breaker    atomic.Pointer[breaker]
	budget     retryBudget
	slots      slots
	downtime   downtime
	metrics    upstreamMetrics
	logger     *slog.Logger

	breakerMu sync.Mutex // serializes reports of the breaker's state and its replacement
}

// A call is a unary call with all its attempts.
type call struct {
	ctx            context.Context
	method         *method
	settings       *settings
	fullMethod     string
	request, reply any
	team           string // "" for a call without a team
	clientConn     *grpc.ClientConn
	invoke         grpc.UnaryInvoker
	options        []grpc.CallOption
	attemptStart   time.Time
}

func (c *call) attempt(ctx context.Context) error {
	return c.invoke(ctx, c.fullMethod, c.request, c.reply, c.clientConn, c.options...)
}

// intercept is the [grpc.UnaryClientInterceptor] of the connection.
func (u *upstream) intercept(
	ctx context.Context, fullMethod string, request, reply any, clientConn *grpc.ClientConn, invoke grpc.UnaryInvoker,
	options ...grpc.CallOption,
) error {
	start, m, s := time.Now(), u.methods[methodName(fullMethod)], u.settings.Load()
	attemptCtx, cancel := withDeadline(ctx)
	defer cancel()
	failure := u.callWithinLimit(&call{
		ctx: attemptCtx, method: m, settings: s, fullMethod: fullMethod, request: request, reply: reply, team: teamOf(request),
		clientConn: clientConn, invoke: invoke, options: s.callOptions(options), attemptStart: start,
	})
	took := time.Since(start)
	timings.FromContext(ctx).Add(timings.Service, took)
	if failure == nil {
		m.observe(ctx, codes.OK, took)
		return nil
	}
	if refused, ok := failure.(*refusal); ok { //nolint:errorlint // made by this package, not wrapped
		u.metrics.refused[refused.reason].Inc()
	}
	err := newError(ctx.Err(), m, failure)
	m.observe(ctx, err.Code, took)
	return err
}

func withDeadline(ctx context.Context) (context.Context, context.CancelFunc) {
	if deadline, ok := ctx.Deadline(); ok {
		return context.WithDeadline(ctx, deadline.Add(-deadlineMargin))
	}
	return context.WithTimeout(ctx, defaultTimeout)
}

// callWithinLimit makes a call if an in-flight slot is free for its team.
func (u *upstream) callWithinLimit(c *call) error {
	switch reason := u.slots.take(c.team, c.settings.MaxInFlight); reason {
	case ReasonOverloaded:
		return newRefusal(reason, 0, fmt.Sprintf("the limit of %d calls in flight is reached", c.settings.MaxInFlight))
	case ReasonTeamOverloaded:
		return newRefusal(reason, 0, fmt.Sprintf("the team's share of the limit of %d calls in flight is reached", c.settings.MaxInFlight))
	}
	defer u.slots.release(c.team)
	return u.callWithRetries(c)
}

// setBreaker replaces the breaker by a closed one with the settings. The reason is logged if it was not closed before.
func (u *upstream) setBreaker(s BreakerSettings, reason string) {
	u.breakerMu.Lock()
	defer u.breakerMu.Unlock()
	before := u.breaker.Swap(newBreaker(s, u.breakerChanged))
	if before == nil || before.status.Load().State != BreakerClosed {
		u.metrics.setBreakerState(BreakerClosed)
	}
	if before != nil && before.status.Load().State != BreakerClosed {
		u.logBreaker(BreakerClosed, reason)
	}
}

// breakerChanged reports the state of a breaker, which calls it with its own lock held. It ignores a replaced breaker, whose last calls may
// still change its state.
func (u *upstream) breakerChanged(b *breaker, state BreakerState, reason string) {
	u.breakerMu.Lock()
	defer u.breakerMu.Unlock()
	if b == u.breaker.Load() {
		u.metrics.setBreakerState(state)
		u.logBreaker(state, reason)
	}
}

func (u *upstream) logBreaker(state BreakerState, reason string) {
	level := slog.LevelInfo
	if state == BreakerOpen {
		level = slog.LevelWarn
	}
	u.logger.Log(context.Background(), level, "circuit breaker is "+string(state),
		slog.String("service", u.service), slog.String("because", reason))
}
