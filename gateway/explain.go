package gateway

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/gin-gonic/gin"

	"opsgate/authn"
	"opsgate/backendclient"
	"opsgate/ratelimit"
)

// An ExplainRequest describes a request, and what the authenticator, the limiter and the services would return for it.
type ExplainRequest struct {
	Method string // "" for GET
	Path   string // as a client sends it, including the query

	Principal  *authn.Principal           // of the token; nil if it is unknown
	Revoked    *authn.RevokedError        // set if the token is revoked
	Assignment *ratelimit.Assignment      // policy of the decision; nil for the principal's
	Decision   *ratelimit.Decision        // result of a Peek of the limiter; nil if it is unknown
	LimiterErr error                      // returned in place of a decision
	ServiceErr func(service string) error // returns the error of a service that cannot be called, else nil; may be nil
}

// An Explanation is the response to a described request, and the result of each check.
type Explanation struct {
	Answer Answer          `json:"answer"`
	Checks []Check         `json:"checks"` // in order, including those after the first that failed
	Route  *ExplainedRoute `json:"route"`  // null if no route matches
}

// An Answer is the response that a client would get. If all checks pass, it is a success or a redirect; the service may still fail.
type Answer struct {
	Status      int               `json:"status"`
	Code        string            `json:"code"` // ok, or the error's
	Cause       Cause             `json:"cause,omitempty"`
	Text        string            `json:"text,omitempty"`
	Details     map[string]string `json:"details,omitempty"` // problems by parameter or field
	Allow       string            `json:"allow,omitempty"`
	RetryAfter  int64             `json:"retry_after_seconds,omitempty"`
	FailedCheck string            `json:"because,omitempty"` // name of the check that determines the response; "" if none failed
}

// The outcomes of a check.
const (
	Passes  = "passes"
	Refuses = "refuses"
	Unknown = "unknown" // counts as passed
)

// A Check is the result of one check.
type Check struct {
	Name    string `json:"name"`
	Outcome string `json:"outcome"` // Passes, Refuses or Unknown
	Detail  string `json:"detail,omitempty"`
}

// An ExplainedRoute is the row of the route table that matches a request.
type ExplainedRoute struct {
	ID      string  `json:"id"`
	Method  string  `json:"method"`
	Path    string  `json:"path"`    // template
	Scope   string  `json:"scope"`   // "" if any token is sufficient
	Service string  `json:"service"` // "" if none is called
	Timeout float64 `json:"timeout_seconds"`
}

// Explain runs the stages and the handler of the request's route without side effects. The authenticator and the limiter return what q
// states, and no service is called.
func (g *Gateway) Explain(q ExplainRequest) Explanation {
	x := &dryRun{Context: context.Background(), ExplainRequest: q}
	x.result.Answer = Answer{Status: http.StatusOK, Code: "ok"}
	req, err := x.request()
	if err != nil {
		x.refuse("target", err)
		return x.result
	}
	if x.gateway, err = g.withoutEffects(x); err != nil {
		x.refuse("limits", err)
		return x.result
	}
	g.engine.ServeHTTP(discardWriter{make(http.Header)}, req)
	return x.result
}

// withoutEffects returns a copy of the gateway whose stages use x, and change neither the metrics nor the capacity of g.
func (g *Gateway) withoutEffects(x *dryRun) (*Gateway, error) {
	a, o := x.Assignment, g.options
	if a == nil {
		p := cmp.Or(x.Principal, &authn.Principal{})
		a = o.Policies.For(p.TeamID, p.TokenID)
	}
	policies, err := ratelimit.NewPolicies(ratelimit.Assignment{Policy: a.Policy})
	if err != nil {
		return nil, internal(err)
	}
	o.Authenticator, o.Limiter, o.Policies, o.Metrics, o.Capacity = x, x, policies, newMetrics(), o.Capacity.snapshot()
	o.RetrySlots, o.Decisions, o.Tracer = nil, nil, nil
	return &Gateway{options: o, limitSets: newLimitSets(policies, o.Metrics), overloaded: g.overloaded}, nil
}

// A dryRun is the context of a described request. It implements the authenticator and the limiter of the gateway that runs its stages.
type dryRun struct {
	context.Context
	ExplainRequest

	gateway *Gateway
	result  Explanation
}

// A notGivenError is returned in a dry run for a result that the ExplainRequest does not contain.
type notGivenError struct{ detail string }

// Error returns the detail.
func (e *notGivenError) Error() string { return e.detail }

// Authenticate implements [Authenticator].
func (x *dryRun) Authenticate(context.Context, string, authn.Source) (*authn.Principal, error) {
	switch {
	case x.Revoked != nil:
		return nil, x.Revoked
	case x.Principal == nil:
		return nil, &notGivenError{"the token's team is not known"}
	}
	return x.Principal, nil
}

// Decide implements [Limiter].
func (x *dryRun) Decide(context.Context, string, *ratelimit.Policy) (ratelimit.Decision, error) {
	switch {
	case x.LimiterErr != nil:
		return ratelimit.Decision{}, x.LimiterErr
	case x.Decision == nil:
		return ratelimit.Decision{}, &notGivenError{"the remaining requests are not known"}
	}
	return *x.Decision, nil
}

// Refund implements [Limiter]. A dry run has nothing to refund.
func (x *dryRun) Refund(context.Context, string, *ratelimit.Policy, ratelimit.Decision) error {
	return nil
}

// request returns the described request, with a target that is parsed like that of a request to the server.
func (x *dryRun) request() (*http.Request, error) {
	target, err := url.ParseRequestURI(x.Path)
	if err != nil || strings.Contains(x.Path, " ") { // a space would end the target in the request line
		return nil, badRequest("the path is not a valid request target")
	}
	req, err := http.NewRequestWithContext(x, x.Method, "/", bodyNotGiven{})
	if err != nil {
		return nil, badRequest("the method is not a valid HTTP method")
	}
	req.URL, req.RequestURI = target, x.Path
	req.Header.Set("Authorization", "Bearer token") // Authenticate ignores the token
	return req, nil
}

// badRequest is the response that net/http sends before the gateway is called: plain text, without a code.
func badRequest(text string) *Problem { return &Problem{Status: http.StatusBadRequest, Text: text} }

// serve runs all stages of the route, and the handler up to its call of a service.
func (x *dryRun) serve(c *gin.Context, rt *boundRoute) {
	r := &Request{gateway: x.gateway, route: rt, gin: c, ctx: x, root: &requestContext{Context: x}, start: x.gateway.options.Clock()}
	// While the caller is unknown, its plan and scopes count as sufficient.
	r.principal = &authn.Principal{AIPlan: true, Scopes: authn.NewScopes(authn.AllScopes()...)}
	for _, s := range rt.stages {
		if err := s.check(x.gateway, r); err != nil {
			x.refuse(s.name, err)
		} else if detail, known := x.passed(s.name, r); detail != "" {
			x.add(s.name, detail, known)
		}
	}
	if rt.Handle != nil {
		x.result.Route = explainedRoute(&rt.Route)
		x.handle(r)
	}
}

func explainedRoute(row *Route) *ExplainedRoute {
	scope := string(row.Scope)
	if row.Scope == anyToken {
		scope = ""
	}
	return &ExplainedRoute{
		ID: row.ID, Method: row.Method, Path: row.Path, Scope: scope, Service: row.Service, Timeout: row.Timeout.Seconds(),
	}
}

// passed describes a stage that passed, and returns whether its result is known. The description is "" for a stage that is not reported.
func (x *dryRun) passed(stage string, r *Request) (detail string, known bool) {
	switch stage {
	case stageCapacity:
		inFlight, _, _ := x.gateway.options.Capacity.Load()
		return fmt.Sprintf("%d requests are in flight", inFlight-1), true
	case stageToken:
		return fmt.Sprintf("token %s of team %s", r.principal.TokenID, r.principal.TeamID), true
	case stageLimits:
		return r.limitSet.describe(&r.decision), true
	case stageRoute:
		return fmt.Sprintf("%s: %s %s", r.route.ID, r.route.Method, r.route.Path), true
	case stagePlan:
		if x.Principal == nil {
			return "the team's plan is not known", false
		}
		return "the team has the AI plan", true
	case stageScope:
		switch scope := string(r.route.Scope); {
		case r.route.Scope == anyToken:
			return "any token is sufficient", true
		case x.Principal == nil:
			return "the token's scopes are not known; it needs " + scope, false
		default:
			return "the token has the scope " + scope, true
		}
	}
	return "", true
}

// handle runs the handler with clients that return a notGivenError instead of calling a service.
func (x *dryRun) handle(r *Request) {
	const request, decoded = "request", "path and query are valid"
	reply, err := r.route.dryHandle(r)
	unknown, isUnknown := errors.AsType[*notGivenError](err)
	switch {
	case isUnknown:
		if unknown == errBodyNotGiven {
			x.add(request, decoded+"; the body is not known", false)
		} else {
			x.add(request, decoded, true)
		}
		x.service(r.route.Service, unknown.detail)
	case err != nil:
		x.refuse(request, err)
	default:
		x.add(request, decoded+"; no service is called", true)
	}
	a := &x.result.Answer
	switch {
	case a.FailedCheck != "":
	case reply.allow != "":
		a.Status, a.Allow = http.StatusNoContent, reply.allow
	case reply.redirect != 0:
		a.Status = reply.redirect
	}
}

// service adds the check of the service that the request would reach.
func (x *dryRun) service(name, detail string) {
	if x.ServiceErr != nil {
		if err := x.ServiceErr(name); err != nil {
			x.refuse("service", err)
			return
		}
	}
	x.add("service", name+" would be called"+detail, false)
}

// add adds a check that passed or whose result is not known.
func (x *dryRun) add(name, detail string, known bool) {
	outcome := Passes
	if !known {
		outcome = Unknown
	}
	x.result.Checks = append(x.result.Checks, Check{Name: name, Outcome: outcome, Detail: detail})
}

// refuse adds a check that returned an error. The first one determines the answer.
func (x *dryRun) refuse(name string, err error) {
	if unknown, ok := errors.AsType[*notGivenError](err); ok {
		x.add(name, unknown.detail, false)
		return
	}
	p := problemOf(err, &Route{}, false)
	x.result.Checks = append(x.result.Checks, Check{Name: name, Outcome: Refuses, Detail: p.operatorText()})
	if a := &x.result.Answer; a.FailedCheck == "" {
		*a = Answer{
			Status: p.Status, Code: p.Code, Cause: p.Cause, Text: p.Text, Details: p.Details, Allow: p.Header.Get("Allow"),
			RetryAfter: wholeSeconds(p.RetryAfter), FailedCheck: name,
		}
	}
}

// operatorText returns the problem's text and details, or a text that clients do not get: for a revoked token and an unavailable service.
func (p *Problem) operatorText() string {
	if p.Cause == causeTokenRevoked {
		return "the token was revoked"
	}
	if call, ok := errors.AsType[*backendclient.Error](p); ok {
		return call.Service + " cannot be reached"
	}
	if p.Status != http.StatusUnprocessableEntity { // other texts contain their details
		return p.Text
	}
	texts := []string{p.Text}
	for _, name := range slices.Sorted(maps.Keys(p.Details)) {
		texts = append(texts, name+": "+p.Details[name])
	}
	return strings.Join(texts, "; ")
}
