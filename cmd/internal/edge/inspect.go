package edge

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"time"

	"opsgate/authn"
	"opsgate/backendclient"
	"opsgate/cmd/internal/admin"
	"opsgate/cmd/internal/config"
	"opsgate/gateway"
	"opsgate/ratelimit"
	"opsgate/ratelimit/heavyhitters"
)

// liveTokens returns what the tokens of clients begin with.
func liveTokens(c config.Config) string { return c.TokenPrefix + "live_" }

// adminAccess says who may ask on the admin listener.
func adminAccess(c config.Admin) admin.Access {
	return admin.Access{Token: c.Token.Reveal(), ClientCertificates: c.TLS.ClientCAFile != "", Listen: c.Listen}
}

// An inspector answers what operators ask, by the configuration in force.
type inspector struct {
	parts *parts
	clock func() time.Time
}

var _ admin.Inspector = (*inspector)(nil)

const (
	// stateUnavailable is the state of a connection that could not be made.
	stateUnavailable = "unavailable"
	// checkService is what the gateway calls the check that a service makes.
	checkService = "service"
)

// A look is what is known of a token and its limits without spending any.
type look struct {
	principal  *authn.Principal    // nil where the gateway does not remember the token
	revoked    *authn.RevokedError // nil unless it remembers that the token was revoked
	assignment *ratelimit.Assignment
	decision   *ratelimit.Decision // nil where there is an error
	err        error
	state      admin.TokenState
}

func (i *inspector) look(ctx context.Context, s *snapshot, of admin.Subject) look {
	var l look
	l.remember(s, &of)
	l.assignment = s.policies.For(of.TeamID, of.TokenID)
	l.state.Policy = policyOf(l.assignment)
	// A policy of the token's own holds whatever its team is.
	l.state.Policy.TeamUnknown = of.TeamID == "" && l.assignment.Class != ratelimit.ClassToken
	l.state.Store = i.parts.storeState()
	decision, err := i.parts.limiter.Peek(ctx, of.TokenID, l.assignment.Policy)
	if err != nil {
		l.err, l.state.Store.Error = err, err.Error()
	} else {
		l.decision = &decision
	}
	l.state.Limits = limitsOf(s.loaded, l.assignment, l.decision)
	return l
}

// remember notes what the gateway remembers of a token, and the team that it is of.
func (l *look) remember(s *snapshot, of *admin.Subject) {
	record, known := s.authenticator.CachedToken(of.TokenID)
	token := &l.state.Token
	token.Remembered, token.How = known, record.Freshness
	switch p := record.Principal; {
	case p != nil:
		l.principal, of.TeamID = p, p.TeamID
		token.AIPlan, token.Scopes = &p.AIPlan, p.Scopes.Strings()
	case known:
		token.How = admin.Revoked
		l.revoked, of.TeamID = record.Revoked, cmp.Or(record.Revoked.TeamID, of.TeamID)
	}
	token.TeamID = of.TeamID
}

// storeState says where budgets are counted, and how that stands.
func (p *parts) storeState() admin.Store {
	if p.shared == nil {
		return admin.Store{Mode: ratelimit.ModeMemory}
	}
	return p.shared.state()
}

func policyOf(a *ratelimit.Assignment) admin.Policy {
	p := admin.Policy{Class: a.Class, Key: a.Key, Origin: a.Origin, Owner: a.Owner, Reason: a.Reason}
	if !a.Expires.IsZero() {
		p.Expires = &a.Expires
	}
	return p
}

// limitsOf returns the limits of an assignment with what the decision leaves of them.
func limitsOf(loaded config.Loaded, a *ratelimit.Assignment, d *ratelimit.Decision) []admin.Limit {
	key := a.Key
	if a.Class != ratelimit.ClassDefault {
		key += ".limits"
	}
	list := make([]admin.Limit, len(a.Policy.Limits()))
	for i, l := range a.Policy.Limits() {
		list[i] = admin.Limit{
			Name: l.Name, Requests: l.Requests, Per: l.Per.Seconds(), Shadow: l.Shadow, Origin: loaded.Origin(fmt.Sprintf("%s[%d]", key, i)),
		}
		if d != nil {
			remaining, reset := d.Budgets[i].Remaining, admin.Seconds(d.Budgets[i].Reset)
			list[i].Remaining, list[i].Reset = &remaining, &reset
		}
	}
	return list
}

// Limits implements [admin.Inspector].
func (i *inspector) Limits(ctx context.Context, s admin.Subject) admin.TokenLimits {
	now := i.parts.current.Load()
	return admin.TokenLimits{
		At: i.clock().UTC().Truncate(time.Millisecond), Version: now.version, Subject: s, TokenState: i.look(ctx, now, s).state,
	}
}

// Explain implements [admin.Inspector].
func (i *inspector) Explain(ctx context.Context, q admin.Question) admin.Explanation {
	now := i.parts.current.Load()
	l := i.look(ctx, now, q.Subject)
	e := now.gateway.Explain(gateway.Question{
		Method: q.Method, Path: q.Path,
		Principal: l.principal, Revoked: l.revoked, Assignment: l.assignment, Decision: l.decision, LimiterErr: l.err,
	})
	x := admin.Explanation{
		At: i.clock().UTC().Truncate(time.Millisecond), Version: now.version, Question: q, TokenState: l.state,
		Answer: answerOf(e), Checks: make([]admin.Check, len(e.Checks)),
	}
	for j, c := range e.Checks {
		x.Checks[j] = admin.Check{Name: c.Name, Outcome: outcome(c), Detail: c.Detail}
	}
	states := i.parts.dependencies()
	x.Identity = admin.Service{Name: "identity", State: states["identity"].State, Breaker: i.breaker("identity")}
	if r := e.Route; r != nil {
		x.Route = &admin.Route{
			ID: r.ID, Method: r.Method, Path: r.Path, Scope: r.Scope, Service: r.Service, Timeout: r.Timeout.Seconds(),
		}
		if r.Service != "" {
			x.Service = &admin.Service{Name: r.Service, State: states[r.Service].State, Breaker: i.breaker(r.Service)}
			refuseForService(&x)
		}
	}
	return x
}

func (i *inspector) breaker(service string) *admin.Breaker {
	state := i.parts.clients.Breakers()[service]
	return &admin.Breaker{State: state.State, Cause: state.Cause}
}

// refuseForService says what becomes of a request whose service cannot be reached: a call fails at once while the connection does, and
// while the breaker is open.
func refuseForService(x *admin.Explanation) {
	open := x.Service.Breaker.State == backendclient.BreakerOpen
	if x.Answer.Because != "" || x.Service.State != stateUnavailable && !open {
		return
	}
	for j := range x.Checks {
		if c := &x.Checks[j]; c.Name == checkService {
			c.Outcome, c.Detail = admin.Refuses, x.Service.Name+" cannot be reached"
			x.Answer = admin.Answer{
				Status: http.StatusServiceUnavailable, Code: "unavailable", Text: c.Detail, RetryAfter: 1, Because: c.Name,
			}
		}
	}
}

func answerOf(e gateway.Explanation) admin.Answer {
	a := admin.Answer{Status: e.Status, Code: e.Code, Cause: string(e.Cause), Text: e.Text, Details: e.Details, Because: e.Because}
	if e.RetryAfter > 0 {
		a.RetryAfter = int64((e.RetryAfter + time.Second - 1) / time.Second)
	}
	return a
}

func outcome(c gateway.Check) string {
	switch {
	case !c.Known:
		return admin.Unknown
	case c.Passes:
		return admin.Passes
	default:
		return admin.Refuses
	}
}

// Reset implements [admin.Inspector].
func (i *inspector) Reset(ctx context.Context, tokenID string) error {
	return i.parts.limiter.Reset(ctx, tokenID)
}

// Busiest implements [admin.Inspector].
func (i *inspector) Busiest(n int) []admin.BusyToken {
	top := i.parts.busiest.Top(n)
	list := make([]admin.BusyToken, len(top))
	for j, entry := range top {
		list[j] = admin.BusyToken(entry)
	}
	return list
}

// A crowd notes which tokens ask.
type crowd struct{ sketch *heavyhitters.Sketch }

// Decided implements [gateway.DecisionObserver].
func (c crowd) Decided(p *authn.Principal, _ *ratelimit.Assignment, d *ratelimit.Decision) {
	c.sketch.Add(p.TokenID, p.TeamID, !d.Allowed)
}

// Configuration implements [admin.Inspector].
func (i *inspector) Configuration() admin.Configuration {
	now := i.parts.current.Load()
	effective := now.loaded.Effective()
	c := admin.Configuration{
		Version: now.version, Since: now.since, File: now.loaded.Path, LastReload: i.parts.lastReload.Load(),
		Values: make([]admin.Value, len(effective)),
	}
	for j, v := range effective {
		c.Values[j] = admin.Value(v)
	}
	return c
}
