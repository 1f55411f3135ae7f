package admin

import (
	"context"
	"math"
	"time"

	"opsgate/backendclient"
	"opsgate/cmd/internal/gate/config"
	"opsgate/gateway"
	"opsgate/ratelimit"
)

// Inspector reads the state of a running gateway. Except for Reset, its methods change nothing; no method calls an internal service.
type Inspector interface {
	// Explain returns the response that a described request would get, and the result of each check.
	Explain(ctx context.Context, q Question) Explanation
	// Limits returns the state of a token's limits.
	Limits(ctx context.Context, s Subject) TokenLimits
	// Reset deletes the usage of a token. It returns an error if Redis could not be reached: then it has deleted only the usage that
	// this gateway counted.
	Reset(ctx context.Context, tokenID string) error
	// Busiest returns at most n tokens with the most requests, in descending order.
	Busiest(n int) []BusyToken
	// FindTokens returns cached tokens with a text in their name or in that of their team, in either case, or at the beginning of an id.
	FindTokens(text string) FoundTokens
	// Names returns the names of cached tokens and their teams, by those of the ids that have one.
	Names(ids []string) map[string]string
	// Configuration returns the configuration in force.
	Configuration() Configuration
}

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

// ThisGateway is the scope of what one gateway has counted or cached: others may have another state.
const ThisGateway = "this gateway only"

// An Explanation is the response that a described request would get now, and the state that it depends on.
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
	Name    string   `json:"name"`
	State   string   `json:"state"`   // of the connection: ready, connecting, unavailable, …
	Breaker *Breaker `json:"breaker"` // null where calls have none
}

// Breaker is the state of a circuit breaker.
type Breaker struct {
	State backendclient.BreakerState `json:"state"`
	Cause string                     `json:"cause,omitempty"`
	// Methods are those whose breakers are not closed.
	Methods []string `json:"methods,omitempty"`
	Team    string   `json:"team,omitempty"` // the only team whose calls it refuses; "" for all
}

// BreakerOf returns the state of the breakers of a service.
func BreakerOf(s backendclient.BreakerStatus) Breaker {
	return Breaker{State: s.State, Cause: s.Cause, Methods: s.Methods, Team: s.Team}
}

// TokenState is the state of a token and its limits in this gateway.
type TokenState struct {
	Token  Token   `json:"token"`
	Policy Policy  `json:"policy"`
	Limits []Limit `json:"limits"`
	Store  Store   `json:"store"`
}

// Revoked is the value of Token.Freshness for a revoked token.
const Revoked = "revoked"

// Token is the cache entry of a token.
type Token struct {
	Cached    bool     `json:"cached"`
	Freshness string   `json:"freshness,omitempty"` // freshness of the entry, or Revoked
	TokenName string   `json:"token_name,omitempty"`
	TeamID    string   `json:"team_id,omitempty"`
	TeamName  string   `json:"team_name,omitempty"`
	AIPlan    *bool    `json:"ai_plan,omitempty"` // null if unknown
	Scopes    []string `json:"scopes,omitempty"`
}

// Policy is the source of a token's limits.
type Policy struct {
	Class   string     `json:"class"`
	Key     string     `json:"key"`    // of the configuration
	Origin  string     `json:"origin"` // file and line, variable or flag
	Owner   string     `json:"owner,omitempty"`
	Reason  string     `json:"reason,omitempty"`
	Expires *time.Time `json:"expires,omitempty"`
	// TeamUnknown is set if the policy was selected by the token's id only, and the team may have another one.
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

// Store is the state of the rate limit store.
type Store struct {
	Mode  ratelimit.Mode `json:"mode"`
	Since *time.Time     `json:"since,omitempty"` // when the mode began
	// Replicas is the number of gateways that divide the limits in mode local; 0 for mode memory.
	Replicas int `json:"replicas,omitempty"`
	// EvictingServers is the number of Redis servers whose maxmemory-policy evicts keys, as far as the gateway may read it. EvictedKeys were
	// evicted since the gateway started.
	EvictingServers int64 `json:"evicting_servers,omitempty"`
	EvictedKeys     int64 `json:"evicted_keys,omitempty"`

	Breaker *Breaker `json:"breaker"`         // of Redis; null for mode memory
	Error   string   `json:"error,omitempty"` // why the limits' state is unknown
}

// TokenLimits is the response of /admin/limits/{token_id}.
type TokenLimits struct {
	At      time.Time `json:"at"`
	Version string    `json:"config_version"`
	Subject
	TokenState
}

// BusyToken is a token with many recent requests. Older requests count less.
type BusyToken struct {
	TokenID   string `json:"token_id"`
	TeamID    string `json:"team_id"`
	TokenName string `json:"token_name,omitempty"` // "" if the token is not cached or has none, like TeamName
	TeamName  string `json:"team_name,omitempty"`
	Requests  uint64 `json:"requests"`
	Denied    uint64 `json:"denied"`
	Error     uint64 `json:"error"` // maximum overestimate of Requests
}

// TokenIdentity has the ids and names of a cached token and its team.
type TokenIdentity struct {
	TokenID   string `json:"token_id"`
	TeamID    string `json:"team_id"`
	TokenName string `json:"token_name,omitempty"`
	TeamName  string `json:"team_name,omitempty"`
}

// FoundTokens is the response of /admin/tokens: the first 20 tokens by team and name.
type FoundTokens struct {
	Tokens []TokenIdentity `json:"tokens"`
	Total  int             `json:"total"`
}

// Configuration is the configuration in force.
type Configuration struct {
	Version    string    `json:"version"`
	Since      time.Time `json:"since"`
	File       string    `json:"file"` // "" for none
	LastReload *Reload   `json:"last_reload"`

	Certificates []config.Certificate `json:"certificates,omitempty"` // in use
	Values       []config.Value       `json:"values,omitempty"`       // all keys; nil in the state of the console
}

// The outcomes of a reload.
const (
	ReloadApplied   = "applied"   // the configuration changed
	ReloadUnchanged = "unchanged" // the configuration is the same as before
	ReloadRefused   = "refused"   // the configuration is invalid; the old one stays active
)

// Reload is an attempt to apply a changed configuration.
type Reload struct {
	At       time.Time `json:"at"`
	Why      string    `json:"why"`
	Outcome  string    `json:"outcome"`
	Keys     []string  `json:"keys,omitempty"` // that were refused
	Problems []string  `json:"problems,omitempty"`
}

// Seconds returns a duration in seconds, rounded up to milliseconds so that waiting for it is enough.
func Seconds(d time.Duration) float64 { return math.Ceil(d.Seconds()*1e3) / 1e3 }
