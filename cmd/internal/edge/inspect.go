package edge

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"google.golang.org/grpc/codes"

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
	l.remember(i.parts.authenticator, &of)
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
func (l *look) remember(a *authn.Authenticator, of *admin.Subject) {
	record, known := a.CachedToken(of.TokenID)
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
	l, states := i.look(ctx, now, q.Subject), i.parts.dependencies()
	service := func(name string) admin.Service {
		breaker := i.parts.clients.Breakers()[name]
		return admin.Service{
			Name: name, State: states[name].State, Breaker: &admin.Breaker{State: breaker.State, Cause: breaker.Cause},
		}
	}
	x := admin.Explanation{
		At: i.clock().UTC().Truncate(time.Millisecond), Version: now.version, Question: q, TokenState: l.state,
		Identity: service(dependencyIdentity),
		Explanation: now.gateway.Explain(gateway.ExplainRequest{
			Method: q.Method, Path: q.Path,
			Principal: l.principal, Revoked: l.revoked, Assignment: l.assignment, Decision: l.decision, LimiterErr: l.err,
			ServiceErr: func(name string) error { return serviceErr(service(name)) },
		}),
	}
	if x.Route != nil && x.Route.Service != "" {
		s := service(x.Route.Service)
		x.Service = &s
	}
	return x
}

// serviceErr returns the error with which a call of the service fails at once, or nil if a call would be sent.
func serviceErr(s admin.Service) error {
	switch {
	case s.Breaker.State == backendclient.BreakerOpen:
		return &backendclient.Error{Service: s.Name, Code: codes.Unavailable, Reason: backendclient.ReasonBreakerOpen}
	case s.State == stateUnavailable:
		return &backendclient.Error{Service: s.Name, Code: codes.Unavailable}
	}
	return nil
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
