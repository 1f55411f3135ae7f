package wiring

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"google.golang.org/grpc/codes"

	"opsgate/authn"
	"opsgate/backendclient"
	"opsgate/cmd/internal/gate/admin"
	"opsgate/cmd/internal/gate/config"
	"opsgate/gateway"
	"opsgate/ratelimit"
	"opsgate/ratelimit/heavyhitters"
)

// tokenPrefix returns the prefix of all tokens of clients.
func tokenPrefix(c config.Config) string { return c.TokenPrefix + "live_" }

// adminAccess returns the access rules of the admin listener.
func adminAccess(c config.Admin) admin.Access {
	return admin.Access{
		Token: c.Token.Reveal(), MetricsToken: c.MetricsToken.Reveal(), ClientCertificates: c.TLS.ClientCAFile != "", Listen: c.Listen,
	}
}

// An inspector answers requests of the admin pages from the active snapshot.
type inspector struct {
	parts *parts
	clock func() time.Time
}

var _ admin.Inspector = (*inspector)(nil)

// stateUnavailable is the state of a service without a connection.
const stateUnavailable = "unavailable"

// A tokenView is the state of a token and its limits.
type tokenView struct {
	principal  *authn.Principal    // nil if the token is not cached
	revoked    *authn.RevokedError // nil unless its revocation is cached
	assignment *ratelimit.Assignment
	decision   *ratelimit.Decision // nil if err is not
	err        error
	state      admin.TokenState
}

// view returns the state of a token. It counts no request and makes no call of the identity service.
func (i *inspector) view(ctx context.Context, s *snapshot, subject admin.Subject) tokenView {
	var v tokenView
	teamID := v.setCached(i.parts.authenticator, subject)
	v.assignment = s.policies.For(teamID, subject.TokenID)
	v.state.Policy = policyOf(v.assignment)
	// A policy of the token does not depend on its team.
	v.state.Policy.TeamUnknown = teamID == "" && v.assignment.Class != ratelimit.ClassToken
	v.state.Store = i.parts.storeState()
	decision, err := i.parts.limiter.Peek(ctx, subject.TokenID, v.assignment.Policy)
	if err != nil {
		v.err, v.state.Store.Error = err, err.Error()
	} else {
		v.decision = &decision
	}
	v.state.Limits = limitsOf(s.loaded, v.assignment, v.decision)
	return v
}

// setCached sets what the authenticator has cached about the token. It returns the team of the token, or the subject's team if the token is
// not cached.
func (v *tokenView) setCached(a *authn.Authenticator, subject admin.Subject) (teamID string) {
	record, cached := a.CachedToken(subject.TokenID)
	token := &v.state.Token
	token.Cached, token.Freshness, token.TeamID = cached, record.Freshness, subject.TeamID
	switch p := record.Principal; {
	case p != nil:
		v.principal, token.TeamID = p, p.TeamID
		token.AIPlan, token.Scopes = &p.AIPlan, p.Scopes.Strings()
	case cached:
		token.Freshness = admin.Revoked
		v.revoked, token.TeamID = record.Revoked, cmp.Or(record.Revoked.TeamID, subject.TeamID)
	}
	return token.TeamID
}

// storeState returns the state of the store of rate limits.
func (p *parts) storeState() admin.Store {
	if p.limiter.shared == nil {
		return admin.Store{Mode: ratelimit.ModeMemory}
	}
	return p.limiter.shared.state()
}

func policyOf(a *ratelimit.Assignment) admin.Policy {
	p := admin.Policy{Class: a.Class, Key: a.Key, Origin: a.Origin, Owner: a.Owner, Reason: a.Reason}
	if !a.Expires.IsZero() {
		p.Expires = &a.Expires
	}
	return p
}

// limitsOf returns the limits of an assignment, with their remaining requests if there is a decision.
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
	active := i.parts.current.Load()
	return admin.TokenLimits{
		At: i.clock().UTC().Truncate(time.Millisecond), Version: active.version, Subject: s, TokenState: i.view(ctx, active, s).state,
	}
}

// Explain implements [admin.Inspector].
func (i *inspector) Explain(ctx context.Context, q admin.Question) admin.Explanation {
	active := i.parts.current.Load()
	token, states := i.view(ctx, active, q.Subject), i.parts.dependencies()
	service := func(name string) admin.Service {
		breaker := i.parts.clients.Breakers()[name]
		return admin.Service{
			Name: name, State: states[name].State, Breaker: &admin.Breaker{State: breaker.State, Cause: breaker.Cause, Team: breaker.Team},
		}
	}
	x := admin.Explanation{
		At: i.clock().UTC().Truncate(time.Millisecond), Version: active.version, Question: q, TokenState: token.state,
		Identity: service(dependencyIdentity),
		Explanation: active.gateway.Explain(gateway.ExplainRequest{
			Method: q.Method, Path: q.Path,
			Principal: token.principal, Revoked: token.revoked, Assignment: token.assignment, Decision: token.decision, LimiterErr: token.err,
			ServiceErr: func(name string) error { return serviceErr(service(name), token.state.Token.TeamID) },
		}),
	}
	if x.Route != nil && x.Route.Service != "" {
		s := service(x.Route.Service)
		x.Service = &s
	}
	return x
}

// serviceErr returns the error with which a call of the service for a team fails at once, or nil if a call would be sent.
func serviceErr(s admin.Service, team string) error {
	switch {
	case s.Breaker.State == backendclient.BreakerOpen && (s.Breaker.Team == "" || s.Breaker.Team == team):
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

// busyTokens counts the requests of each token.
type busyTokens struct{ sketch *heavyhitters.Sketch }

// Decided implements [gateway.DecisionObserver].
func (b busyTokens) Decided(p *authn.Principal, _ *ratelimit.Assignment, d *ratelimit.Decision) {
	b.sketch.Add(p.TokenID, p.TeamID, !d.Allowed)
}

// Configuration implements [admin.Inspector].
func (i *inspector) Configuration() admin.Configuration {
	active := i.parts.current.Load()
	effective := active.loaded.Effective()
	c := admin.Configuration{
		Version: active.version, Since: active.since, File: active.loaded.Path, LastReload: i.parts.lastReload.Load(),
		Values: make([]admin.Value, len(effective)),
	}
	for j, v := range effective {
		c.Values[j] = admin.Value(v)
	}
	return c
}
