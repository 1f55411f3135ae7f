package status

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"

	"opsgate/authn"
	"opsgate/backendclient"
	"opsgate/cmd/internal/gate/admin"
	"opsgate/cmd/internal/gate/admin/console"
	"opsgate/cmd/internal/gate/config"
	"opsgate/gateway"
	"opsgate/ratelimit"
	"opsgate/ratelimit/failover"
	"opsgate/ratelimit/heavyhitters"
	"opsgate/ratelimit/redisstore"
)

// Options are the options of [New]. All are required except Redis.
type Options struct {
	Active        func() Active
	Clients       *backendclient.Clients
	Authenticator *authn.Authenticator
	Limits        ratelimit.Store
	Redis         *Redis // nil if limits are counted in memory
	Busiest       *heavyhitters.Sketch
	Overload      *OverloadMonitor
	Clock         func() time.Time
}

// Active is the active configuration with what was built from it.
type Active struct {
	Loaded       *config.Loaded
	Version      string
	Since        time.Time // when the version became active
	Policies     *ratelimit.Policies
	Gateway      *gateway.Gateway
	LastReload   *admin.Reload // nil if there was none
	Certificates []config.Certificate
}

// Redis is the part of the limiter that counts in Redis.
type Redis struct {
	Limits    *failover.Store
	Gateways  *redisstore.Gateways
	DividedBy func() int // number of gateways that divide the limits in an outage
}

// An Inspector reads the state of a gateway from its parts. It is safe for concurrent use.
type Inspector struct {
	options Options
	busy    busyNames
}

var (
	_ admin.Inspector = (*Inspector)(nil)
	_ console.Source  = (*Inspector)(nil)
)

// New returns an Inspector.
func New(o Options) *Inspector {
	return &Inspector{options: o}
}

// A tokenView is the state of a token and its limits.
type tokenView struct {
	principal  *authn.Principal    // nil if the token is not cached
	revoked    *authn.RevokedError // nil unless its revocation is cached
	assignment *ratelimit.Assignment
	decision   *ratelimit.Decision // nil if the limits could not be read
	err        error               // of reading the limits
	state      admin.TokenState
}

// view returns the state of a token. It counts no request and makes no call of the identity service.
func (i *Inspector) view(ctx context.Context, active Active, subject admin.Subject) tokenView {
	var v tokenView
	teamID := v.setCached(i.options.Authenticator, subject)
	v.assignment = active.Policies.For(teamID, subject.TokenID)
	v.state.Policy = policyOf(v.assignment)
	// A policy of the token does not depend on its team.
	v.state.Policy.TeamUnknown = teamID == "" && v.assignment.Class != ratelimit.ClassToken
	v.state.Store = i.Store()
	decision, err := i.options.Limits.Peek(ctx, subject.TokenID, v.assignment.Policy)
	if err != nil {
		v.err, v.state.Store.Error = err, err.Error()
	} else {
		v.decision = &decision
	}
	v.state.Limits = limitsOf(active.Loaded, v.assignment, v.decision)
	return v
}

// setCached sets what the authenticator has cached about the token. It returns the team of the token, or the subject's team if the token is
// not cached.
func (v *tokenView) setCached(a *authn.Authenticator, subject admin.Subject) (teamID string) {
	record, cached := a.CachedToken(subject.TokenID)
	token, id := &v.state.Token, record.Identity()
	token.Cached, token.Freshness, token.TeamID = cached, record.Freshness, cmp.Or(id.TeamID, subject.TeamID)
	token.TokenName, token.TeamName = id.TokenName, id.TeamName
	switch p := record.Principal; {
	case p != nil:
		v.principal, token.AIPlan, token.Scopes = p, &p.AIPlan, p.Scopes.Strings()
	case cached: // as revoked: without a principal
		token.Freshness, v.revoked = admin.Revoked, record.Revoked
	}
	return token.TeamID
}

// Store returns the state of the store of rate limits. It implements [console.Source].
func (i *Inspector) Store() admin.Store {
	redis := i.options.Redis
	if redis == nil {
		return admin.Store{Mode: ratelimit.ModeMemory}
	}
	state := redis.Limits.State()
	evicting, evicted := redis.Gateways.Eviction()
	return admin.Store{
		Mode: state.Mode, Since: &state.Since, Replicas: redis.DividedBy(), EvictingServers: evicting, EvictedKeys: evicted,
		Breaker: &admin.Breaker{State: backendclient.BreakerState(state.Breaker), Cause: state.Cause},
	}
}

func policyOf(a *ratelimit.Assignment) admin.Policy {
	p := admin.Policy{Class: a.Class, Key: a.Key, Origin: a.Origin, Owner: a.Owner, Reason: a.Reason}
	if !a.Expires.IsZero() {
		p.Expires = &a.Expires
	}
	return p
}

// limitsOf returns the limits of an assignment, with their remaining requests if there is a decision.
func limitsOf(loaded *config.Loaded, a *ratelimit.Assignment, d *ratelimit.Decision) []admin.Limit {
	key := a.Key // of the list of the default limits, or of a mapping with the list "limits"
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
func (i *Inspector) Limits(ctx context.Context, s admin.Subject) admin.TokenLimits {
	active := i.options.Active()
	return admin.TokenLimits{
		At: i.options.Clock().UTC().Truncate(time.Millisecond), Version: active.Version, Subject: s, TokenState: i.view(ctx, active, s).state,
	}
}

// Explain implements [admin.Inspector].
func (i *Inspector) Explain(ctx context.Context, q admin.Question) admin.Explanation {
	active := i.options.Active()
	token, states := i.view(ctx, active, q.Subject), i.Dependencies()
	service := func(name string) admin.Service {
		breaker := admin.BreakerOf(i.options.Clients.Breakers()[name])
		return admin.Service{Name: name, State: states[name].State, Breaker: &breaker}
	}
	x := admin.Explanation{
		At: i.options.Clock().UTC().Truncate(time.Millisecond), Scope: admin.ThisGateway, Version: active.Version,
		Question: q, TokenState: token.state,
		Identity: service(dependencyIdentity),
		Explanation: active.Gateway.Explain(gateway.ExplainRequest{
			Method: q.Method, Path: q.Path,
			Principal: token.principal, Revoked: token.revoked, Assignment: token.assignment, Decision: token.decision, LimiterErr: token.err,
			ServiceErr: func(name, method string) error {
				clients := i.options.Clients
				return serviceErr(name, clients.States()[name], clients.Refuses(name, method, token.state.Token.TeamID))
			},
		}),
	}
	if x.Route != nil && x.Route.Service != "" {
		s := service(x.Route.Service)
		x.Service = &s
	}
	return x
}

// serviceErr returns the error with which a call of a service fails at once, or nil if a call would be sent. refused is whether the breaker
// refuses it.
func serviceErr(service string, state connectivity.State, refused bool) error {
	switch {
	case refused:
		return &backendclient.Error{Service: service, Code: codes.Unavailable, Reason: backendclient.ReasonBreakerOpen}
	case state == connectivity.TransientFailure:
		return &backendclient.Error{Service: service, Code: codes.Unavailable}
	}
	return nil
}

// Reset implements [admin.Inspector].
func (i *Inspector) Reset(ctx context.Context, tokenID string) error {
	return i.options.Limits.Reset(ctx, tokenID)
}

// Configuration implements [admin.Inspector].
func (i *Inspector) Configuration() admin.Configuration {
	active := i.options.Active()
	return admin.Configuration{
		Version: active.Version, Since: active.Since, File: active.Loaded.Path, LastReload: active.LastReload,
		Certificates: active.Certificates, Values: active.Loaded.Effective(),
	}
}
