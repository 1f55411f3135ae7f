package admin

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"net/http"
	"slices"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"

	"opsgate/authn"
	"opsgate/backendclient"
	"opsgate/backendclient/breaker"
	"opsgate/cmd/internal/gate/config"
	"opsgate/gateway"
	"opsgate/ratelimit"
)

// Subject identifies a token.
type Subject struct {
	TokenID string `json:"token_id"`
	TeamID  string `json:"team_id,omitempty"` // used if the token is not cached; "" if unknown
}

// A Question describes the request of an explanation.
type Question struct {
	Subject

	Method string `json:"method"`
	Path   string `json:"path"` // as a client sends it, including the query
}

// ThisGateway is the scope of what one gateway has counted or cached: others may have another
// state.
const ThisGateway = "this gateway only"

// An Explanation is the response that a described request would get now, and the state that it
// depends on.
type Explanation struct {
	At      time.Time `json:"at"`
	Scope   string    `json:"scope"` // ThisGateway
	Version string    `json:"config_version"`
	Question
	gateway.Explanation

	Service  *Service `json:"service"`  // null if the route calls none
	Identity Service  `json:"identity"` // if it is unavailable, tokens that are not cached get a 503
	TokenState
}

// A Service is an internal service as the gateway sees it.
type Service struct {
	Name    string          `json:"name"`
	State   string          `json:"state"`   // of the connection: ready, connecting, unavailable, …
	Breaker *breaker.Status `json:"breaker"` // null where calls have none
}

// TokenLimits is the response of /admin/limits/{token_id}.
type TokenLimits struct {
	At      time.Time `json:"at"`
	Version string    `json:"config_version"`
	Subject
	TokenState
}

// TokenState is the state of a token and its limits in this gateway.
type TokenState struct {
	Token  Token   `json:"token"`
	Policy Policy  `json:"policy"`
	Limits []Limit `json:"limits"`
	Store  Store   `json:"store"`

	principal  *authn.Principal    // nil if the token is not cached
	refused    *authn.RefusedError // nil unless it has expired or its revocation is cached
	assignment *ratelimit.Assignment
	decision   *ratelimit.Decision // nil if the limits could not be read
	err        error               // of reading the limits
}

// Token is the cache entry of a token.
type Token struct {
	Cached    bool     `json:"cached"`
	Freshness string   `json:"freshness,omitempty"` // of the entry: fresh, stale, due, expired or revoked
	TokenName string   `json:"token_name,omitempty"`
	TeamID    string   `json:"team_id,omitempty"`
	TeamName  string   `json:"team_name,omitempty"`
	AIPlan    *bool    `json:"ai_plan,omitempty"` // null if unknown
	Scopes    []string `json:"scopes,omitempty"`

	LimitClass string    `json:"limit_class,omitempty"` // that identity names
	Expires    time.Time `json:"expires,omitzero"`
}

// Policy is the source of a token's limits.
type Policy struct {
	Class    string    `json:"class"`
	ChosenBy string    `json:"chosen_by"`
	Key      string    `json:"key"`    // of the configuration
	Origin   string    `json:"origin"` // file and line, variable or flag
	Owner    string    `json:"owner,omitempty"`
	Reason   string    `json:"reason,omitempty"`
	Expires  time.Time `json:"expires,omitzero"`
	// TeamUnknown is set if the policy was selected by the token's id only, and the team may have
	// another one.
	TeamUnknown bool `json:"team_unknown,omitempty"`
}

// Limit is the state of one limit of a token.
type Limit struct {
	Name      string   `json:"name"`
	Requests  int      `json:"requests"`
	Per       float64  `json:"per_seconds"`
	Shadow    bool     `json:"shadow"`
	Remaining *int     `json:"remaining"`     // null if the store is unavailable
	Reset     *float64 `json:"reset_seconds"` // until more remain; 0 without usage; null if the store is unavailable
	Origin    string   `json:"origin"`
}

func (a *Admin) limits(w http.ResponseWriter, r *http.Request) {
	s, problems := subjectOf(r)
	respond(w, problems, func() any { return a.limitsOf(r.Context(), s) })
}

func (a *Admin) limitsOf(ctx context.Context, s Subject) TokenLimits {
	active := a.options.Active()
	return TokenLimits{At: a.now(), Version: active.Version, Subject: s, TokenState: a.tokenState(ctx, active, s)}
}

// now returns the time for a response.
func (a *Admin) now() time.Time { return a.options.Clock().UTC().Truncate(time.Millisecond) }

// tokenState returns the state of a token. It counts no request and calls no internal service.
func (a *Admin) tokenState(ctx context.Context, active Active, subject Subject) TokenState {
	s := TokenState{Store: a.store()}
	s.setToken(a.options.Authenticator, subject)
	s.assignment = active.Policies.For(s.Token.TeamID, subject.TokenID, s.Token.LimitClass)
	c := s.assignment
	s.Policy = Policy{
		Class: c.Class, ChosenBy: chosenBy(c, subject.TokenID, s.Token), Key: c.Key, Origin: c.Origin, Owner: c.Owner,
		Reason: c.Reason, Expires: c.Expires,
	}
	// A policy of the token does not depend on its team.
	s.Policy.TeamUnknown = s.Token.TeamID == "" && c.Class != ratelimit.ClassToken
	if decision, err := a.options.Limits.Peek(ctx, subject.TokenID, c.Policy); err == nil {
		s.decision = &decision
	} else {
		s.err, s.Store.Error = err, err.Error()
	}
	s.Limits = limitsOf(active.Loaded, c, s.decision)
	return s
}

// chosenBy returns why an assignment applies to a token.
func chosenBy(a *ratelimit.Assignment, tokenID string, t Token) string {
	switch {
	case slices.Contains(a.Tokens, tokenID):
		return "the configuration, for the token"
	case slices.Contains(a.Teams, t.TeamID):
		return "the configuration, for the team"
	case t.LimitClass == "":
		return "the configuration, by default"
	case t.LimitClass == a.Class:
		return "identity"
	}
	return "the configuration, by default: it has no class " + t.LimitClass + ", which identity names"
}

// setToken sets what the authenticator has cached about the token. The subject's team is that of a
// token that is not cached.
func (s *TokenState) setToken(a *authn.Authenticator, subject Subject) {
	record, cached := a.CachedToken(subject.TokenID)
	id := record.Identity()
	s.Token = Token{
		Cached: cached, Freshness: record.Freshness, TokenName: id.TokenName,
		TeamID: cmp.Or(id.TeamID, subject.TeamID), TeamName: id.TeamName, LimitClass: id.LimitClass,
	}
	s.principal, s.refused = record.Principal, record.Refused
	if p := record.Principal; p != nil {
		s.Token.AIPlan, s.Token.Scopes, s.Token.Expires = &p.AIPlan, p.Scopes.Strings(), p.ExpiresAt
	}
}

// limitsOf returns the limits of an assignment, with their remaining requests if there is a
// decision.
func limitsOf(loaded *config.Loaded, a *ratelimit.Assignment, d *ratelimit.Decision) []Limit {
	key := a.Key // of the list of the default limits, or of a mapping with the list "limits"
	if a.Class != ratelimit.ClassDefault {
		key += ".limits"
	}
	list := make([]Limit, len(a.Policy.Limits()))
	for i, l := range a.Policy.Limits() {
		list[i] = Limit{
			Name: l.Name, Requests: l.Requests, Per: l.Per.Seconds(), Shadow: l.Shadow,
			Origin: loaded.Origin(fmt.Sprintf("%s[%d]", key, i)),
		}
		if d != nil {
			// In milliseconds, rounded up so that waiting for it is enough.
			remaining, reset := d.Budgets[i].Remaining, math.Ceil(d.Budgets[i].Reset.Seconds()*1e3)/1e3
			list[i].Remaining, list[i].Reset = &remaining, &reset
		}
	}
	return list
}

func (a *Admin) explain(w http.ResponseWriter, r *http.Request) {
	q, problems := question(r)
	respond(w, problems, func() any { return a.explanation(r.Context(), q) })
}

// explanation returns the response that a described request would get, and the result of each
// check.
func (a *Admin) explanation(ctx context.Context, q Question) Explanation {
	active, clients := a.options.Active(), a.options.Clients
	token, services := a.tokenState(ctx, active, q.Subject), make(map[string]Service)
	for _, d := range a.dependencies(a.options.Clock()) {
		services[d.Name] = Service{Name: d.Name, State: d.State, Breaker: d.Breaker}
	}
	x := Explanation{
		At: a.now(), Scope: ThisGateway, Version: active.Version, Question: q, TokenState: token,
		Identity: services[dependencyIdentity],
		Explanation: active.Gateway.Explain(gateway.ExplainRequest{
			Method: q.Method, Path: q.Path,
			Principal: token.principal, Refused: token.refused, Assignment: token.assignment, Decision: token.decision,
			LimiterErr: token.err,
			ServiceErr: func(name, method string) error {
				return serviceErr(name, clients.Services()[name].Connection, clients.Refuses(name, method, token.Token.TeamID))
			},
		}),
	}
	if x.Route != nil && x.Route.Service != "" {
		s := services[x.Route.Service]
		x.Service = &s
	}
	return x
}

// serviceErr returns the error with which a call of a service fails at once, or nil if a call would
// be sent. refused is whether the breaker refuses it.
func serviceErr(service string, state connectivity.State, refused bool) error {
	switch {
	case refused:
		return &backendclient.Error{Service: service, Code: codes.Unavailable, Reason: backendclient.ReasonBreakerOpen}
	case state == connectivity.TransientFailure:
		return &backendclient.Error{Service: service, Code: codes.Unavailable}
	}
	return nil
}
