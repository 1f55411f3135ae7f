package gateway

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime/debug"
	"strings"
	"time"

	"github.com/gin-gonic/gin"

	"opsgate/authn"
	"opsgate/backendclient/timings"
	"opsgate/ratelimit"
)

// A stage looks at a request before its handler does, and lets it pass or names the problem.
type stage struct {
	name    string
	check   func(g *Gateway, r *Request) error
	explain func(q *Question, r *Request) finding // the same of what a question knows: it asks nobody and spends nothing
	waits   bool                                  // for others, so that a trace should tell how long
}

// The order in which a request is looked at (decisions, "The order of checks"). Whether there is room for it comes before anything is
// spent on it. What concerns the caller comes before anything is told of routes; what concerns the operation comes after. Strangers
// may see the documentation.
var (
	strangerStages = []stage{
		{"capacity", (*Gateway).admit, explainCapacity, false},
		{"header", (*Gateway).checkHeader, explainHeader, false},
		{"route", (*Gateway).checkRoute, explainRoute, false},
	}
	callerStages = []stage{
		{"capacity", (*Gateway).admit, explainCapacity, false},
		{"header", (*Gateway).checkHeader, explainHeader, false},
		{"token", (*Gateway).authenticate, explainToken, true},
		{"limits", (*Gateway).spendBudget, explainLimits, true},
		{"route", (*Gateway).checkRoute, explainRoute, false},
	}
	apiStages = []stage{
		{"capacity", (*Gateway).admit, explainCapacity, false},
		{"header", (*Gateway).checkHeader, explainHeader, false},
		{"token", (*Gateway).authenticate, explainToken, true},
		{"limits", (*Gateway).spendBudget, explainLimits, true},
		{"route", (*Gateway).checkRoute, explainRoute, false},
		{"plan", (*Gateway).checkPlan, explainPlan, false},
		{"scope", (*Gateway).checkScope, explainScope, false},
	}
)

// A route is a row as it is served: with the stages before its handler, and what is observed of it.
type route struct {
	Route
	template string // of its path, for people
	stages   []stage
	observer *observer
}

func (g *Gateway) newRoute(row Route, stages []stage) *route {
	row.Timeout = cmp.Or(g.timeouts[row.ID], row.Timeout, g.timeout)
	template := pathTemplate(row.Path)
	return &route{Route: row, template: template, stages: stages, observer: g.metrics.observer(row.ID, template, g.logger.Handler())}
}

// serve takes a request through its stages, its handler and the writer.
func (g *Gateway) serve(rt *route) gin.HandlerFunc {
	return func(c *gin.Context) {
		r := g.acquire(c, rt)
		defer g.release(r)
		// Of real time, whatever the clock says: gRPC's cannot be moved.
		ctx := &requestContext{Context: g.beginTrace(c.Request.Context(), r), deadline: time.Now().Add(rt.Timeout)}
		r.ctx, r.root = ctx, ctx
		defer g.leave(r)

		reply, err := r.answer()
		s := r.respond(reply, err)
		g.observe(r, s)
		if r.refunded != nil {
			g.refunds.add(r.refunded)
		}
		if s.status == statusClientClosed {
			// Nothing was sent, and net/http would make an empty 200 of that for a client that only closed its sending side.
			panic(http.ErrAbortHandler)
		}
	}
}

// A requestContext carries the deadline of a request and has no timer: a call of a service has one of its own, a margin earlier
// (backendclient), and one more here would cost as much as all stages together. It collects how long the request waited for others.
type requestContext struct {
	context.Context // of the connection: it ends when the client hangs up
	deadline        time.Time
	bodyTime        time.Duration // in which the body arrived, as far as it did
	timings         timings.Timings
}

// addBodyTime moves the deadline by the time in which the body arrived, which is the client's. It is called once, before anything that
// depends on the deadline.
func (c *requestContext) addBodyTime(took time.Duration) {
	c.bodyTime = took
	c.deadline = c.deadline.Add(took)
}

// Deadline implements [context.Context].
func (c *requestContext) Deadline() (time.Time, bool) { return c.deadline, true }

// Value implements [context.Context].
func (c *requestContext) Value(key any) any {
	if _, ok := key.(timings.ContextKey); ok {
		return &c.timings
	}
	return c.Context.Value(key)
}

// answer runs the stages, the handler and the view. A panic in any of them is an error like another.
func (r *Request) answer() (reply Reply, err error) {
	defer func() {
		if v := recover(); v != nil {
			r.gateway.metrics.panics.Inc()
			err = internal(fmt.Errorf("panic: %v\n%s", v, debug.Stack())).because(causePanic)
		}
	}()
	for i := range r.route.stages {
		if err := r.pass(&r.route.stages[i]); err != nil {
			return Reply{}, err
		}
	}
	if reply, err = r.route.Handle(r); err != nil {
		return Reply{}, err
	}
	if reply.View != nil {
		reply.View(&r.out)
	}
	if err = r.out.Err(); err != nil && r.route.Service != "" {
		err = internal(err).because(troubleContract.of(r.route.Service))
	}
	return reply, err
}

func (g *Gateway) authenticate(r *Request) error {
	authorization := r.http().Header["Authorization"]
	token, sent := authn.BearerToken(authorization)
	if token == "" {
		return unauthorized(sent, errNoToken).because(causeOfCredential(authorization))
	}
	principal, err := g.authenticator.Authenticate(r.ctx, token, r)
	if errors.Is(err, authn.ErrInvalidToken) {
		r.revoked, _ = errors.AsType[*authn.RevokedError](err)
		return unauthorized(sent, err).because(causeOfToken(err))
	}
	if err != nil {
		return err
	}
	r.principal = principal
	r.connection = AcquireConnection(r.http().Context())
	return nil
}

// spendBudget asks the limiter. Every authenticated request spends, whatever becomes of it, but for those that it refuses.
func (g *Gateway) spendBudget(r *Request) error {
	t := &g.terms[g.policies.For(r.principal.TeamID, r.principal.TokenID).Index()]
	decision, err := g.limiter.Decide(r.ctx, r.principal.TokenID, t.assignment.Policy)
	if err != nil {
		return limiterAway(err)
	}
	r.decision, r.terms = decision, t
	g.observeDecision(r)
	if !decision.Allowed {
		by := &t.limits[decision.Denied]
		wait := g.retrySlots.take(g.clock(), r.principal.TokenID, by.Limit, decision.RetryAfter)
		return rateLimited(by.refusal, wait).because(by.cause)
	}
	return nil
}

// limiterAway is what a client is told when nobody can tell whether its limits admit the request: never that it asked too often.
func limiterAway(err error) *Problem {
	var retryAfter time.Duration
	if away, ok := errors.AsType[*ratelimit.UnavailableError](err); ok {
		retryAfter = away.RetryAfter
	}
	return unavailable(retryAfter, fmt.Errorf("deciding limits: %w", err)).because(causeLimiterAway)
}

// checkRoute refuses a request that no row is for, and what no path of ours can hold while a parameter of the router's could: dot
// segments, empty ones, and what is percent-encoded without need, a slash above all (decisions, "Requests").
func (g *Gateway) checkRoute(r *Request) error {
	if u := r.http().URL; u.RawPath != "" || strings.Contains(u.Path, "//") || strings.Contains(u.Path, "/.") {
		return noRoute()
	}
	if r.route.Handle != nil {
		return nil
	}
	// Gin has left in the header which methods the path would take.
	if allowed := r.gin.Writer.Header().Get("Allow"); allowed != "" {
		return methodNotAllowed(allowValue(strings.Split(allowed, ", ")))
	}
	return noRoute()
}

func (g *Gateway) checkPlan(r *Request) error {
	if !r.principal.AIPlan {
		return missingPlan()
	}
	return nil
}

func (g *Gateway) checkScope(r *Request) error {
	if scope := r.route.Scope; scope != AnyToken && !r.principal.Scopes.Has(scope) {
		return missingScope(scope)
	}
	return nil
}

// maxPooledBytes is the largest buffer that is kept for the next request.
const maxPooledBytes = 1 << 20

func (g *Gateway) acquire(c *gin.Context, rt *route) *Request {
	r, _ := g.pool.Get().(*Request) // the pool holds nothing else
	r.gin, r.route, r.start = c, rt, g.clock()
	r.values = new([maxOwnHeaders]string)
	r.id = requestID(c.Request.Header["X-Request-Id"], g.liveTokens, r.start)
	return r
}

func (g *Gateway) release(r *Request) {
	if r.out.Cap() > maxPooledBytes || r.zipped.Cap() > maxPooledBytes {
		return
	}
	out, zipped := r.out, r.zipped
	out.Reset()
	zipped.Reset()
	*r = Request{gateway: g, out: out, zipped: zipped}
	g.pool.Put(r)
}

var _ http.Handler = (*Gateway)(nil)
