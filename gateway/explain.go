package gateway

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"

	"github.com/gin-gonic/gin"

	"opsgate/authn"
	"opsgate/backendclient"
	"opsgate/ratelimit"
)

// An ExplainRequest describes a request, and the results of the authenticator, the limiter and the
// services for this request.
type ExplainRequest struct {
	Method string // "" for GET
	Path   string // as a client sends it, including the query

	Principal  *authn.Principal      // of the token; nil if it is not known
	Refused    *authn.RefusedError   // set if the token is revoked or has expired
	Assignment *ratelimit.Assignment // policy of the decision; nil for the principal's
	Decision   *ratelimit.Decision   // result of a Peek of the limiter; nil if it is not known
	LimiterErr error                 // returned in place of a decision
	// ServiceErr returns why a method of a service, such as "GetServer", cannot be called at
	// present, or nil if the method can be called. A nil function means that all can be called.
	ServiceErr func(service, method string) error
}

// An Explanation is the response to a described request, and the result of each check.
type Explanation struct {
	Answer Answer          `json:"answer"`
	Checks []Check         `json:"checks"` // in order; the checks after a failed one are included
	Route  *ExplainedRoute `json:"route"`  // null if no route matches
}

// An Answer is the response that a client would get. If all checks pass, the answer is a success or
// a redirect, although the service may still fail.
type Answer struct {
	Status     int               `json:"status"`
	Code       string            `json:"code"` // ok, or the error's
	Cause      Cause             `json:"cause,omitempty"`
	Text       string            `json:"text,omitempty"`
	Details    map[string]string `json:"details,omitempty"` // problems by parameter or field
	Allow      string            `json:"allow,omitempty"`
	RetryAfter int64             `json:"retry_after_seconds,omitempty"`
	// name of the check that determines the response; "" if none failed
	FailedCheck string `json:"failed_check,omitempty"`
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

// Explain runs the stages and the handler of the request's route without side effects. The
// authenticator and the limiter return the results in q, and no service is called.
func (g *Gateway) Explain(q ExplainRequest) Explanation {
	e := &explainer{question: &q}
	e.result.Answer = Answer{Status: http.StatusOK, Code: "ok"}
	req, err := q.request()
	if err != nil {
		e.addError("target", err)
		return e.result
	}
	if e.gateway, err = g.newDryGateway(&q); err != nil {
		e.addError("limits", err)
		return e.result
	}
	e.gateway.newEngine(e.handlerFor).ServeHTTP(discardWriter{make(http.Header)}, req)
	return e.result
}

// request returns the described request. Its target is parsed as net/http parses the target of a
// request to the server.
func (q *ExplainRequest) request() (*http.Request, error) {
	target, err := url.ParseRequestURI(q.Path)
	if err != nil || strings.Contains(q.Path, " ") { // a space would end the target in the request line
		return nil, badRequest("the path is not a valid request target")
	}
	req, err := http.NewRequestWithContext(context.Background(), q.Method, "/", unknownBody{})
	if err != nil {
		return nil, badRequest("the method is not a valid HTTP method")
	}
	req.URL, req.RequestURI = target, q.Path
	req.Header.Set("Authorization", "Bearer token") // dryAuthenticator ignores the token
	return req, nil
}

// badRequest is the response that net/http sends before the gateway is called: plain text, without
// a code.
func badRequest(text string) *Problem { return &Problem{Status: http.StatusBadRequest, Text: text} }

// An explainer collects the results of the checks of a request.
type explainer struct {
	question *ExplainRequest
	gateway  *Gateway // of the dry run
	result   Explanation
}

// handlerFor returns the handler of a route. Unlike the handler of [Gateway.handlerFor], it runs
// all stages, even after one has failed, and then the row's handler up to the call of a service.
func (e *explainer) handlerFor(rt *boundRoute) gin.HandlerFunc {
	return func(c *gin.Context) {
		ctx := &requestContext{Context: c.Request.Context()}
		r := &Request{gateway: e.gateway, route: rt, gin: c, ctx: ctx, base: ctx, start: e.gateway.options.Clock()}
		// While the principal is not known, its plan and scopes count as sufficient.
		r.principal = &authn.Principal{AIPlan: true, Scopes: authn.NewScopes(authn.AllScopes()...)}
		for _, s := range rt.stages {
			if err := s.check(e.gateway, r); err != nil {
				e.addError(s.name, err)
			} else if detail, known := e.describePassed(s.name, r); detail != "" {
				e.add(s.name, detail, known)
			}
		}
		if rt.Handle != nil {
			e.result.Route = explainedRoute(&rt.Route)
			e.handle(r)
		}
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

// describePassed describes a stage that passed, and reports whether its result is known. The
// description is "" for a stage that is not reported.
func (e *explainer) describePassed(stage string, r *Request) (detail string, known bool) {
	switch stage {
	case stageCapacity:
		inFlight, _, _ := e.gateway.options.LoadLimit.Stats()
		return fmt.Sprintf("%d requests are in flight", inFlight-1), true // without this one
	case stageToken:
		return fmt.Sprintf("token %s of team %s", r.principal.TokenID, r.principal.TeamID), true
	case stageLimits:
		return r.limitSet.describe(&r.decision), true
	case stageRoute:
		return fmt.Sprintf("%s: %s %s", r.route.ID, r.route.Method, r.route.Path), true
	case stagePlan:
		if e.question.Principal == nil {
			return "the team's plan is not known", false
		}
		return "the team has the AI plan", true
	case stageScope:
		switch scope := string(r.route.Scope); {
		case r.route.Scope == anyToken:
			return "any token is sufficient", true
		case e.question.Principal == nil:
			return "the token's scopes are not known; it needs " + scope, false
		default:
			return "the token has the scope " + scope, true
		}
	}
	return "", true
}

// handle runs the handler, whose clients return a notCalledError instead of calling a service.
func (e *explainer) handle(r *Request) {
	const request, decoded = "request", "path and query are valid"
	reply, err := r.handle()
	call, isCall := errors.AsType[*notCalledError](err)
	switch {
	// The handler ended before the call, so the method is derived from the operation: it has the
	// same name, without v1.
	case errors.Is(err, errUnknownBody):
		e.add(request, decoded+"; the body is not known", false)
		e.addCall(r.route.Service, strings.TrimPrefix(r.route.ID, "v1"), "")
	case isCall:
		e.add(request, decoded, true)
		e.addCall(r.route.Service, path.Base(call.method), call.method)
	case err != nil:
		e.addError(request, err)
	default:
		e.add(request, decoded+"; no service is called", true)
	}
	a := &e.result.Answer
	switch {
	case a.FailedCheck != "":
	case reply.allow != "":
		a.Status, a.Allow = http.StatusNoContent, reply.allow
	case reply.redirect != 0:
		a.Status = reply.redirect
	}
}

// addCall adds the check of the call that the request would make of a service. fullMethod is "" if
// the full name of the method is not known.
func (e *explainer) addCall(service, method, fullMethod string) {
	const check = "service"
	if e.question.ServiceErr != nil {
		if err := e.question.ServiceErr(service, method); err != nil {
			e.addError(check, err)
			return
		}
	}
	detail := service + " would be called"
	if fullMethod != "" {
		detail += ": " + fullMethod
	}
	e.add(check, detail, false)
}

// add adds a check that passed or whose result is not known.
func (e *explainer) add(name, detail string, known bool) {
	outcome := Passes
	if !known {
		outcome = Unknown
	}
	e.result.Checks = append(e.result.Checks, Check{Name: name, Outcome: outcome, Detail: detail})
}

// addError adds a check that returned an error: Unknown for an unknownResultError, else Refuses.
// The first check that refuses determines the answer.
func (e *explainer) addError(name string, err error) {
	if unknown, ok := errors.AsType[*unknownResultError](err); ok {
		e.add(name, unknown.detail, false)
		return
	}
	// only violations that a service reports depend on the route, and no service is called
	p := problemOf(err, &Route{}, false)
	e.result.Checks = append(e.result.Checks, Check{Name: name, Outcome: Refuses, Detail: p.operatorText()})
	if a := &e.result.Answer; a.FailedCheck == "" {
		*a = Answer{
			Status: p.Status, Code: p.Code, Cause: p.Cause, Text: p.Text, Details: p.Details, Allow: p.Header.Get("Allow"),
			RetryAfter: wholeSeconds(p.RetryAfter), FailedCheck: name,
		}
	}
}

// operatorText returns the problem's text and details. For a revoked or expired token and for an
// unavailable service, it returns a text that clients do not get.
func (p *Problem) operatorText() string {
	switch p.Cause {
	case causeTokenRevoked:
		return "the token was revoked"
	case causeTokenExpired:
		return "the token has expired"
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
