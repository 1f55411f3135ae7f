package gateway

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"runtime/debug"
	"strings"
	"time"

	"github.com/gin-gonic/gin"

	"opsgate/authn"
	"opsgate/backendclient"
	"opsgate/internal/timings"
	"opsgate/ratelimit"
)

// A stage checks a request before its handler runs.
type stage struct {
	name   string
	check  func(g *Gateway, r *Request) error
	traced bool // the stage may call another service, so it has a span
}

// Names of stages in traces and explanations.
const (
	stageCapacity = "capacity"
	stageHeader   = "header"
	stageToken    = "token"
	stageLimits   = "limits"
	stageRoute    = "route"
	stagePlan     = "plan"
	stageScope    = "scope"
)

// The stages of a request, in order (docs/integrate/contract.md, "Order of checks"). Requests
// outside of the API need no token. Requests to the API are authenticated before the route is
// checked, so that unauthenticated clients cannot enumerate routes.
var (
	publicStages = []stage{
		{stageCapacity, (*Gateway).takeSlot, false},
		{stageHeader, (*Gateway).checkHeader, false},
		{stageRoute, (*Gateway).checkRoute, false},
	}
	authenticatedStages = []stage{
		{stageCapacity, (*Gateway).takeSlot, false},
		{stageHeader, (*Gateway).checkHeader, false},
		{stageToken, (*Gateway).authenticate, true},
		{stageLimits, (*Gateway).checkLimits, true},
		{stageRoute, (*Gateway).checkRoute, false},
	}
	apiStages = []stage{
		{stageCapacity, (*Gateway).takeSlot, false},
		{stageHeader, (*Gateway).checkHeader, false},
		{stageToken, (*Gateway).authenticate, true},
		{stageLimits, (*Gateway).checkLimits, true},
		{stageRoute, (*Gateway).checkRoute, false},
		{stagePlan, (*Gateway).checkPlan, false},
		{stageScope, (*Gateway).checkScope, false},
	}
)

// A boundRoute is a row of the route table with its stages and metrics.
type boundRoute struct {
	Route

	template string // path in the form of OpenAPI; "" for unmatched requests
	stages   []stage
	metrics  *routeMetrics

	deprecated, sunset []string // headers of a deprecated operation
}

func (g *Gateway) bind(row Route, stages []stage) *boundRoute {
	o := &g.options
	row.Timeout = cmp.Or(o.Timeouts[row.ID], row.Timeout, o.Timeout)
	template := pathTemplate(row.Path)
	metrics := o.Metrics.routeMetrics(row.ID, template, o.markIncomplete(o.Logger.Handler()))
	rt := &boundRoute{Route: row, template: template, stages: stages, metrics: metrics}
	rt.deprecated, rt.sunset = row.deprecation()
	return rt
}

// handlerFor returns the handler of a route, which runs the stages and the row's handler, and
// writes the response.
func (g *Gateway) handlerFor(rt *boundRoute) gin.HandlerFunc {
	return func(c *gin.Context) {
		r := g.getRequest(c, rt)
		defer g.putRequest(r)
		// The deadline is not from the injected clock, because gRPC compares it with the real time.
		ctx := &requestContext{Context: g.beginTrace(c.Request.Context(), r), deadline: time.Now().Add(rt.Timeout)}
		r.ctx, r.base = ctx, ctx
		defer r.markIdle()
		defer g.releaseSlot(r)
		defer r.endBody()
		defer ctx.large.Done()

		reply, err := r.run()
		resp := r.makeResponse(reply, err)
		// While its response is written, a request holds memory, but neither a slot nor its part of
		// the large-response limit.
		ctx.large.Done()
		g.releaseSlot(r)
		g.observe(r, resp)
		if resp.status != statusClientClosed {
			if cut := r.response.Send(resp.status, resp.body, resp.shared); cut.Cause != "" {
				g.logCutOff(r, cut)
			}
		}
		if r.pendingRefund != nil {
			g.options.Refunds.add(r.pendingRefund)
		}
		if resp.status == statusClientClosed {
			// Otherwise net/http would send an empty 200. A client that has closed only its sending
			// side would receive it.
			panic(http.ErrAbortHandler)
		}
	}
}

// A requestContext has the deadline of a request, but no timer: a timer would cost as much as all
// stages together, and each call of a service has one, which ends before the deadline
// (backendclient). The context also collects the time that the request waits for other services.
type requestContext struct {
	context.Context // of the connection; it ends when the client disconnects
	deadline        time.Time
	bodyTime        time.Duration // in which the body arrived
	timings         timings.Timings
	large           backendclient.LargeResponse // from when a service sends a large response until the response is made

	// headerValues has the values of the response headers that differ by request. They are not in
	// the Request, because net/http reads them after the handler, when the Request may already be
	// reused.
	headerValues [maxHeaderValues]string
	numValues    int // used elements of headerValues
}

// addBodyTime moves the deadline by the time in which the body arrived, so that a slow client does
// not shorten the call of the service. It must be called before the call.
func (c *requestContext) addBodyTime(took time.Duration) {
	c.bodyTime = took
	c.deadline = c.deadline.Add(took)
}

// Deadline implements [context.Context].
func (c *requestContext) Deadline() (time.Time, bool) { return c.deadline, true }

// Value implements [context.Context].
func (c *requestContext) Value(key any) any {
	switch key.(type) {
	case timings.ContextKey:
		return &c.timings
	case backendclient.LargeResponseKey:
		return &c.large
	}
	return c.Context.Value(key)
}

// run runs the stages, the handler and the view. It returns a panic as an error.
func (r *Request) run() (reply Reply, err error) {
	defer func() {
		if v := recover(); v != nil {
			r.gateway.options.Metrics.panics.Inc()
			err = internal(fmt.Errorf("panic: %v\n%s", v, debug.Stack())).withCause(causePanic)
		}
	}()
	for i := range r.route.stages {
		if err := r.runStage(&r.route.stages[i]); err != nil {
			return Reply{}, err
		}
	}
	if reply, err = r.handle(); err != nil {
		return Reply{}, err
	}
	if reply.View != nil {
		reply.View(&r.response.JSON)
	}
	// The service sent a value that the API cannot represent.
	if err = r.response.JSON.Err(); err != nil && r.route.Service != "" {
		err = internal(err).withCause(failureContract.cause(r.route.Service))
	}
	return reply, err
}

func (g *Gateway) authenticate(r *Request) error {
	authorization := r.http().Header["Authorization"]
	token, sent := authn.BearerToken(authorization)
	if token == "" {
		return unauthorized(sent, errNoUsableToken).withCause(causeOfCredential(authorization))
	}
	principal, err := g.options.Authenticator.Authenticate(r.ctx, token, r)
	if errors.Is(err, authn.ErrInvalidToken) {
		r.refused, _ = errors.AsType[*authn.RefusedError](err)
		return unauthorized(sent, err).withCause(causeOfToken(err))
	}
	if err != nil {
		return err
	}
	r.principal = principal
	r.busy = MarkBusy(r.http().Context())
	return nil
}

// checkLimits requests a decision from the limiter. Each admitted request counts, with any
// response, unless it is refunded.
func (g *Gateway) checkLimits(r *Request) error {
	p := r.principal
	set := &g.limitSets[g.options.Policies.For(p.TeamID, p.TokenID, p.LimitClass).Index()]
	if g.options.Policies.Misses(set.assignment, p.LimitClass) {
		g.reportUnknownClass(r)
	}
	decision, err := g.options.Limiter.Decide(r.ctx, p.TokenID, set.assignment.Policy)
	if err != nil {
		return limiterUnavailable(err)
	}
	r.decision, r.limitSet = decision, set
	g.observeDecision(r)
	if l := r.deniedBy(); l != nil {
		wait := g.options.RetrySpread.retryAfter(g.options.Clock(), p.TokenID, l.Limit, decision.RetryAfter)
		return rateLimited(l.deniedText, wait).withCause(l.cause)
	}
	return nil
}

// limiterUnavailable is the response if the limiter returns no decision: a 503, never a 429.
func limiterUnavailable(err error) *Problem {
	var retryAfter time.Duration
	if e, ok := errors.AsType[*ratelimit.UnavailableError](err); ok {
		retryAfter = e.RetryAfter
	}
	return unavailable(retryAfter, fmt.Errorf("deciding limits: %w", err)).withCause(causeLimiterUnavailable)
}

// checkRoute rejects a request that matches no row or whose path is not normalized
// (docs/integrate/contract.md, "Requests").
func (g *Gateway) checkRoute(r *Request) error {
	u := r.http().URL
	if !isNormalized(u) {
		return noRoute(u.Path)
	}
	if r.route.Handle != nil {
		return nil
	}
	// Gin has set Allow if other methods match the path.
	if allowed := r.gin.Writer.Header().Get("Allow"); allowed != "" {
		return methodNotAllowed(allowValue(strings.Split(allowed, ", ")))
	}
	return noRoute(u.Path)
}

// isNormalized reports whether the path has no empty segment, no dot segment and no unnecessary
// escape, such as an encoded slash. Without this check, path parameters would match all of these.
func isNormalized(u *url.URL) bool {
	if u.RawPath != "" { // the client did not escape the path as net/url does
		return false
	}
	path := strings.TrimPrefix(u.Path, wellKnownPath) // the only segment that begins with a dot
	return !strings.Contains(path, "//") && !strings.Contains(path, "/.")
}

func (g *Gateway) checkPlan(r *Request) error {
	if !r.principal.AIPlan {
		return missingPlan()
	}
	return nil
}

func (g *Gateway) checkScope(r *Request) error {
	if scope := r.route.Scope; scope != anyToken && !r.principal.Scopes.Has(scope) {
		return missingScope(scope)
	}
	return nil
}

func (g *Gateway) getRequest(c *gin.Context, rt *boundRoute) *Request {
	r, _ := g.requests.Get().(*Request) // the pool has no other type
	r.gin, r.route, r.start = c, rt, g.options.Clock()
	r.response.Begin(c.Writer, c.Request, r)
	r.id = requestID(c.Request.Header["X-Request-Id"], g.options.LiveTokenPrefix, r.start)
	return r
}

func (g *Gateway) putRequest(r *Request) {
	if r.response.Reset() {
		*r = Request{gateway: g, body: r.body, bodyStart: r.bodyStart, response: r.response}
		g.requests.Put(r)
	}
}

var _ http.Handler = (*Gateway)(nil)
