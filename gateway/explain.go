package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/gin-gonic/gin"

	"opsgate/authn"
	"opsgate/ratelimit"
)

// A Question is what is known of a request that nobody makes.
type Question struct {
	Method string // "" for GET
	Path   string // as a client sends it, with a query where that matters

	Principal  *authn.Principal      // nil where it is not known whom the token stands for
	Revoked    *authn.RevokedError   // of a token that is known to be revoked; else nil
	Assignment *ratelimit.Assignment // of the policy that the decision was made under; nil for the principal's
	Decision   *ratelimit.Decision   // what the limiter would say, from a look that spends nothing; nil where that is not known
	LimiterErr error                 // what it said in place of a decision; nil for none
}

// An Explanation is what a request would be answered.
type Explanation struct {
	Route      *ExplainedRoute   // nil where no route takes the request
	Status     int               // of the answer; of a success or a redirect where nothing stands in its way but what a service may say
	Code       string            // of the error, or ok
	Cause      Cause             // of the error, as logs and metrics have it; "" for none
	Text       string            // of the error; "" for none
	Details    map[string]string // of the error; nil for none
	Allow      string            // methods that the path takes, where the answer says so
	RetryAfter time.Duration     // 0 where the answer does not say
	Because    string            // name of the check that decides; "" where all are passed
	Checks     []Check           // in their order, with those that the deciding one goes before
}

// An ExplainedRoute is the row of the table that takes a request.
type ExplainedRoute struct {
	ID, Method, Path string
	Scope            string // "" where any token will do, or none is needed
	Service          string // "" for none
	Timeout          time.Duration
}

// A Check is one thing that a request is looked at for.
type Check struct {
	Name   string `json:"name"`
	Passes bool   `json:"passes"`
	Known  bool   `json:"known"` // what is not known is taken to pass
	Detail string `json:"detail"`
}

// A finding is what a check comes to.
type finding struct {
	err     error // nil where it is passed
	unknown bool
	detail  string // where it is passed; "" for what goes without saying
}

// Explain says what a request would be answered, and why. It goes the way that requests go, through the same table, checks and
// decoders, with services that are not called and budgets that are not spent.
func (g *Gateway) Explain(q Question) Explanation {
	e := &Explanation{Status: http.StatusOK, Code: "ok"}
	req, err := q.request()
	if err != nil {
		e.note("target", finding{err: err})
		return *e
	}
	run := &dryRun{question: &q, explanation: e}
	g.dry.ServeHTTP(&nowhere{header: make(http.Header)}, req.WithContext(context.WithValue(context.Background(), dryRunKey{}, run)))
	return *e
}

// request makes the request of a question. Its target is read as the server reads it, which refuses what is none before anything
// here sees it.
func (q *Question) request() (*http.Request, error) {
	target, err := url.ParseRequestURI(q.Path)
	if err != nil {
		return nil, badRequest("the path is not one that HTTP can ask for")
	}
	req, err := http.NewRequestWithContext(context.Background(), q.Method, "/", unknownBody{})
	if err != nil {
		return nil, badRequest("the method is not one that HTTP has room for")
	}
	req.URL, req.RequestURI = target, q.Path
	return req, nil
}

// badRequest is what the server answers in plain text, without a code.
func badRequest(text string) *Problem { return &Problem{Status: http.StatusBadRequest, Text: text} }

// dryRunKey is the key of a context's dry run.
type dryRunKey struct{}

// A dryRun is a question on its way through the table.
type dryRun struct {
	question    *Question
	explanation *Explanation
}

// explained takes a question through the stages of a route and its handler, in place of a request.
func (g *Gateway) explained(rt *route) gin.HandlerFunc {
	return func(c *gin.Context) {
		run, _ := c.Request.Context().Value(dryRunKey{}).(*dryRun) // Explain alone comes here
		q, e := run.question, run.explanation
		root := &requestContext{Context: c.Request.Context()}
		r := &Request{gateway: g, route: rt, gin: c, ctx: root, root: root, start: g.clock(), principal: q.Principal}
		if r.principal == nil {
			r.principal = &authn.Principal{}
		}
		for _, s := range rt.stages {
			if f := s.explain(q, r); f != (finding{}) {
				e.note(s.name, f)
			}
		}
		if rt.Handle != nil {
			e.Route = explainedRoute(rt)
			e.handle(r)
		}
	}
}

func explainedRoute(rt *route) *ExplainedRoute {
	scope := string(rt.Scope)
	if rt.Scope == AnyToken {
		scope = ""
	}
	return &ExplainedRoute{ID: rt.ID, Method: rt.Method, Path: rt.Path, Scope: scope, Service: rt.Service, Timeout: rt.Timeout}
}

// handle notes what the handler makes of the request before it calls its service.
func (e *Explanation) handle(r *Request) {
	reply, err := r.route.Handle(r)
	call, calls := errors.AsType[*uncalledError](err)
	bodyMissing := errors.Is(err, errBodyUnknown)
	switch {
	case calls:
		e.note("request", finding{detail: "path and query can be read"})
		e.note("service", finding{unknown: true, detail: r.route.Service + " would be called: " + call.method})
	case bodyMissing:
		e.note("request", finding{unknown: true, detail: "path and query can be read; of the body nothing is known"})
		e.note("service", finding{unknown: true, detail: r.route.Service + " would be called"})
	default:
		e.note("request", finding{err: err, detail: "path and query can be read; no service is called"})
	}
	if reply.allow != "" && e.Because == "" {
		e.Status, e.Allow = http.StatusNoContent, reply.allow
	}
	if reply.redirect != 0 && e.Because == "" {
		e.Status = reply.redirect
	}
}

// note adds a check. The first that is not passed decides what is answered.
func (e *Explanation) note(name string, f finding) {
	c := Check{Name: name, Passes: f.err == nil, Known: !f.unknown, Detail: f.detail}
	if f.err != nil {
		p := problemOf(f.err, &Route{}, false)
		c.Detail = p.inWords()
		if e.Because == "" {
			e.Status, e.Code, e.Cause, e.Text, e.Details = p.Status, p.Code, p.Cause, p.Text, p.Details
			e.Allow, e.RetryAfter, e.Because = p.Header.Get("Allow"), p.RetryAfter, name
		}
	}
	e.Checks = append(e.Checks, c)
}

// inWords returns the problem's text, and what is wrong with each parameter or field. An operator reads more than a client of a token.
func (p *Problem) inWords() string {
	if p.Cause == causeTokenRevoked {
		return "the token was revoked"
	}
	if p.Status != http.StatusUnprocessableEntity { // the others name what they speak of
		return p.Text
	}
	said := []string{p.Text}
	for _, name := range slices.Sorted(maps.Keys(p.Details)) {
		said = append(said, name+": "+p.Details[name])
	}
	return strings.Join(said, "; ")
}

func explainToken(q *Question, _ *Request) finding {
	if q.Revoked != nil {
		return finding{err: unauthorized(true, q.Revoked).because(causeTokenRevoked)}
	}
	if q.Principal == nil {
		return finding{unknown: true, detail: "it is not known whom the token stands for"}
	}
	return finding{detail: fmt.Sprintf("token %s of team %s", q.Principal.TokenID, q.Principal.TeamID)}
}

func explainLimits(q *Question, r *Request) finding {
	a := q.Assignment
	if a == nil && q.Principal != nil {
		a = r.gateway.policies.For(q.Principal.TeamID, q.Principal.TokenID)
	}
	switch {
	case q.LimiterErr != nil:
		return finding{err: limiterAway(q.LimiterErr)}
	case q.Decision == nil || a == nil:
		return finding{unknown: true, detail: "it is not known what is left of the limits"}
	case !q.Decision.Allowed:
		by := a.Policy.Limits()[q.Decision.Denied]
		return finding{err: rateLimited(refusalText(by), q.Decision.RetryAfter).because(limitCause(by.Name))}
	}
	return finding{detail: budgetText(a.Policy, q.Decision)}
}

// budgetText says what is left of each limit.
func budgetText(p *ratelimit.Policy, d *ratelimit.Decision) string {
	var b strings.Builder
	for i, l := range p.Limits() {
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, "%s: %d of %d left", l.Name, d.Budgets[i].Remaining, l.Requests)
		switch {
		case d.Shadowed == i:
			b.WriteString(" (in shadow, would refuse)")
		case l.Shadow:
			b.WriteString(" (in shadow)")
		}
	}
	return b.String()
}

func explainRoute(_ *Question, r *Request) finding {
	if err := r.gateway.checkRoute(r); err != nil {
		return finding{err: err}
	}
	return finding{detail: fmt.Sprintf("%s: %s %s", r.route.ID, r.route.Method, r.route.Path)}
}

func explainPlan(q *Question, r *Request) finding {
	if q.Principal == nil {
		return finding{unknown: true, detail: "the team's plan is not known"}
	}
	return finding{err: r.gateway.checkPlan(r), detail: "the team has the AI plan"}
}

func explainScope(q *Question, r *Request) finding {
	switch {
	case r.route.Scope == AnyToken:
		return finding{detail: "any token will do"}
	case q.Principal == nil:
		return finding{unknown: true, detail: "the token's scopes are not known; it needs " + string(r.route.Scope)}
	}
	return finding{err: r.gateway.checkScope(r), detail: "the token has the scope " + string(r.route.Scope)}
}

// MarshalJSON writes the explanation with times in seconds.
func (e Explanation) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Route      *ExplainedRoute   `json:"route"`
		Status     int               `json:"status"`
		Code       string            `json:"code"`
		Cause      Cause             `json:"cause,omitempty"`
		Text       string            `json:"text,omitempty"`
		Details    map[string]string `json:"details,omitempty"`
		Allow      string            `json:"allow,omitempty"`
		RetryAfter int64             `json:"retry_after_seconds,omitempty"`
		Because    string            `json:"because,omitempty"`
		Checks     []Check           `json:"checks"`
	}{e.Route, e.Status, e.Code, e.Cause, e.Text, e.Details, e.Allow, wholeSeconds(e.RetryAfter), e.Because, e.Checks})
}

// MarshalJSON writes the route with its time-out in seconds.
func (r ExplainedRoute) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		ID      string  `json:"id"`
		Method  string  `json:"method"`
		Path    string  `json:"path"`
		Scope   string  `json:"scope"`
		Service string  `json:"service"`
		Timeout float64 `json:"timeout_seconds"`
	}{r.ID, r.Method, r.Path, r.Scope, r.Service, r.Timeout.Seconds()})
}
