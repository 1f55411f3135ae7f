package backendclient

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/mem"

	"opsgate/backendclient/breaker"
	"opsgate/backendclient/endpoints"
	"opsgate/internal/outagelog"
	"opsgate/internal/shares"
	"opsgate/internal/timings"
)

const (
	// deadlineMargin is how long before its caller's deadline a call ends, to leave time for the
	// response.
	deadlineMargin = 10 * time.Millisecond
	// defaultTimeout is the timeout of a call whose caller has no deadline.
	defaultTimeout = 5 * time.Second
)

// Reasons of an [Error] that this package made itself.
const (
	// ReasonBreakerOpen is for a call that the method's breaker refused. RetryAfter is the time
	// until the team may make an attempt.
	ReasonBreakerOpen = "BREAKER_OPEN"
	// ReasonOverloaded is for a call that was not made because too many calls to the service are in
	// flight.
	ReasonOverloaded = "OVERLOADED"
	// ReasonTeamOverloaded is for a call whose team holds at least as many of the service's
	// in-flight slots as are free, or whose large response waited for other large responses until
	// the deadline.
	ReasonTeamOverloaded = "TEAM_OVERLOADED"
)

// An upstream makes the calls to one service. Its typed client uses it as a
// [grpc.ClientConnInterface].
//
// One interceptor does everything, because each interceptor costs an allocation per call. All
// attempts of a call share its deadline and its in-flight slot. The duration metric is of calls;
// the breaker of a method counts attempts.
//
// Streams have no deadline, duration metric or breaker, as they live for days.
//
// A change of the address replaces the connection. The metrics, the retry budget and the calls in
// flight stay; the breakers are closed.
type upstream struct {
	service    string
	connection atomic.Pointer[connection] // to the current address
	methods    map[string]*method         // by name: "GetServer"
	breakers   *breaker.Breakers          // of the unary methods
	settings   *atomic.Pointer[settings]
	budget     retryBudget
	slots      shares.Pool
	large      *shares.Queue // of all services
	metrics    upstreamMetrics
	logger     *slog.Logger

	unavailableSince atomic.Pointer[time.Time] // nil while the service is available
	outages          outagelog.Log

	probeMethod  string // its path, set before the first connection
	probeTimeout time.Duration
	probesDue    chan struct{} // see requestProbes

	reached atomic.Pointer[time.Time] // see ServiceStatus; nil for never
	// unanswered is the last probe without an answer while the service had not been reached.
	unanswered atomic.Pointer[endpoints.UnreachableError]
}

// A call is a unary call with all its attempts.
type call struct {
	ctx            callContext
	method         *method
	settings       *settings
	fullMethod     string
	request, reply any
	encoded        mem.BufferSlice // the response, if it is large: see codec
	waited         time.Duration   // until a large response could be decoded
	clientConn     *grpc.ClientConn
	invoke         grpc.UnaryInvoker
	options        []grpc.CallOption
	attemptStart   time.Time
}

// A callContext is the context of all attempts of a call. gRPC passes it to the balancer, which
// uses it as an [endpoints.Call].
type callContext struct {
	context.Context

	team          string
	namesResource bool // see Error
	answered      bool // the service has sent a part of an answer to the latest attempt
}

// Value implements [context.Context].
func (c *callContext) Value(key any) any {
	if key == (endpoints.CallKey{}) {
		return c
	}
	return c.Context.Value(key)
}

// Team implements [endpoints.Call].
func (c *callContext) Team() string { return c.team }

// attempt makes an attempt, unless the breaker of the method refuses it.
func (c *call) attempt() error {
	a := breaker.Attempt{Team: c.ctx.team, Start: c.attemptStart, Slots: c.settings.MaxInFlight}
	err := c.method.breaker.Do(a, c.invokeOnce)
	if refused, ok := err.(*breaker.RefusedError); ok { //nolint:errorlint // not wrapped
		return newShedError(ReasonBreakerOpen, refused.RetryAfter, refused.Error())
	}
	return err
}

func (c *call) invokeOnce() (breaker.Result, error) {
	c.ctx.answered = false
	err := c.invoke(&c.ctx, c.fullMethod, c.request, c, c.clientConn, c.options...) // see codec
	return c.classify(err), err
}

// intercept is the [grpc.UnaryClientInterceptor] of the connection.
func (u *upstream) intercept(
	ctx context.Context, fullMethod string, request, reply any, clientConn *grpc.ClientConn, invoke grpc.UnaryInvoker,
	options ...grpc.CallOption,
) error {
	start, m, s := time.Now(), u.methods[methodName(fullMethod)], u.settings.Load()
	callCtx, cancel := withDeadline(ctx)
	defer cancel()
	c := &call{
		ctx:    callContext{Context: callCtx, team: teamOf(request), namesResource: m.namesResource},
		method: m, settings: s, fullMethod: fullMethod, request: request, reply: reply,
		clientConn: clientConn, invoke: invoke, options: s.callOptions(options), attemptStart: start,
	}
	failure := u.callWithinLimit(c)
	took := time.Since(start) - c.waited
	timings.FromContext(ctx).Add(timings.Service, took)
	if failure == nil {
		m.observe(ctx, codes.OK, took)
		return nil
	}
	if shed, ok := failure.(*shedError); ok { //nolint:errorlint // made by this package, not wrapped
		u.metrics.refused[shed.reason].Inc()
	}
	err := newError(ctx.Err(), m, failure)
	err.HasKey = hasIdempotencyKey(request)
	m.observe(ctx, err.Code, took)
	return err
}

// teamOf returns the team that a request is for, "" for a request of the gateway itself.
func teamOf(request any) string {
	if r, ok := request.(interface{ GetTeamId() string }); ok {
		return r.GetTeamId()
	}
	return ""
}

func withDeadline(ctx context.Context) (context.Context, context.CancelFunc) {
	if deadline, ok := ctx.Deadline(); ok {
		return context.WithDeadline(ctx, deadline.Add(-deadlineMargin))
	}
	return context.WithTimeout(ctx, defaultTimeout)
}

// callWithinLimit makes a call if an in-flight slot is free for its team. The call holds the slot
// while its response waits to be decoded, which bounds the number of waiting responses.
func (u *upstream) callWithinLimit(c *call) error {
	switch limit := c.settings.MaxInFlight; u.slots.Take(c.ctx.team, 1, int64(limit)) {
	case shares.Exhausted:
		return newShedError(ReasonOverloaded, 0, fmt.Sprintf("the limit of %d calls in flight is reached", limit))
	case shares.ShareReached:
		return newShedError(ReasonTeamOverloaded, 0,
			fmt.Sprintf("the team's share of the limit of %d calls in flight is reached", limit))
	case shares.Taken:
	}
	defer u.slots.Release(c.ctx.team, 1)
	if err := u.callWithRetries(c); err != nil || c.encoded == nil {
		return err
	}
	return u.decodeLarge(c)
}
