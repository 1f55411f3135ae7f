package admin

import (
	"context"
	"math"
	"time"
)

// An Inspector looks into a running gateway. Nothing that it does calls an internal service or spends a budget.
type Inspector interface {
	// Explain says what a request would be answered, and why. What cannot be told is left out of the explanation.
	Explain(ctx context.Context, q Question) Explanation
	// Limits says what is left of a token's limits.
	Limits(ctx context.Context, s Subject) TokenLimits
	// Reset forgets what a token has spent. Its error says that the store that gateways share could not be reached: then this gateway
	// has forgotten what it counted itself, and nothing else is reset.
	Reset(ctx context.Context, tokenID string) error
	// Busiest returns the tokens that ask most, at most n of them, the busiest first.
	Busiest(n int) []BusyToken
	// Configuration returns what the gateway is configured to do now.
	Configuration() Configuration
}

// A Subject is a token that is asked about.
type Subject struct {
	TokenID string `json:"token_id"`
	TeamID  string `json:"team_id,omitempty"` // where the gateway does not remember the token; "" for not known
}

// A Question is about a request that nobody makes.
type Question struct {
	Subject

	Method string `json:"method"`
	Path   string `json:"path"` // as a client sends it, with its query
}

// An Explanation is what a request would be answered now, and everything that this depends on.
type Explanation struct {
	At      time.Time `json:"at"`
	Version string    `json:"config_version"`
	Question
	Answer  Answer   `json:"answer"`
	Checks  []Check  `json:"checks"`  // all, in their order; the first that refuses decides
	Route   *Route   `json:"route"`   // null where no route takes the request
	Service *Service `json:"service"` // null where the route calls none
	// Identity is the service that tells tokens. While it is away, tokens that are not remembered get 503.
	Identity Service `json:"identity"`
	TokenState
}

// An Answer is what a client would get.
type Answer struct {
	Status     int               `json:"status"`
	Code       string            `json:"code"`            // ok, or the error's
	Cause      string            `json:"cause,omitempty"` // of the error, as logs and metrics have it
	Text       string            `json:"text,omitempty"`
	Details    map[string]string `json:"details,omitempty"` // of the error: what is wrong, by parameter or field
	RetryAfter int64             `json:"retry_after_seconds,omitempty"`
	Because    string            `json:"because,omitempty"` // the check that decides; none where all are passed or not known
}

// The outcomes of a check.
const (
	Passes  = "passes"
	Refuses = "refuses"
	Unknown = "unknown"
)

// A Check is one thing that a request is looked at for.
type Check struct {
	Name    string `json:"name"`
	Outcome string `json:"outcome"` // Passes, Refuses or Unknown
	Detail  string `json:"detail,omitempty"`
}

// A Route is the row of the gateway's table that takes a request.
type Route struct {
	ID      string  `json:"id"`
	Method  string  `json:"method"`
	Path    string  `json:"path"`    // template
	Scope   string  `json:"scope"`   // "" where any token will do
	Service string  `json:"service"` // "" for none
	Timeout float64 `json:"timeout_seconds"`
}

// A Service is an internal service as the gateway sees it.
type Service struct {
	Name    string   `json:"name"`
	State   string   `json:"state"`   // of the connection: ready, connecting, unavailable, …
	Breaker *Breaker `json:"breaker"` // null where calls have none
}

// A Breaker keeps calls from what does not answer.
type Breaker struct {
	State string `json:"state"` // closed, open or half-open
	Cause string `json:"cause,omitempty"`
}

// A TokenState is what the gateway knows of a token and its limits.
type TokenState struct {
	Token  Token   `json:"token"`
	Policy Policy  `json:"policy"`
	Limits []Limit `json:"limits"`
	Store  Store   `json:"store"`
}

// Revoked is how a token is remembered that was revoked.
const Revoked = "revoked"

// A Token is what the gateway remembers of one, without asking the identity service.
type Token struct {
	Remembered bool     `json:"remembered"`
	How        string   `json:"how,omitempty"` // how good that memory is, or Revoked
	TeamID     string   `json:"team_id,omitempty"`
	AIPlan     *bool    `json:"ai_plan,omitempty"` // null where it is not known
	Scopes     []string `json:"scopes,omitempty"`
}

// A Policy is where a token's limits come from.
type Policy struct {
	Class   string     `json:"class"`
	Key     string     `json:"key"`    // of the configuration
	Origin  string     `json:"origin"` // file and line, variable or flag
	Owner   string     `json:"owner,omitempty"`
	Reason  string     `json:"reason,omitempty"`
	Expires *time.Time `json:"expires,omitempty"`
	// TeamUnknown says that another policy may hold: this one goes by the token's id alone.
	TeamUnknown bool `json:"team_unknown,omitempty"`
}

// A Limit is one limit of a token, and what is left of it.
type Limit struct {
	Name      string   `json:"name"`
	Requests  int      `json:"requests"`
	Per       float64  `json:"per_seconds"`
	Shadow    bool     `json:"shadow"`
	Remaining *int     `json:"remaining"`     // null where the store cannot tell
	Reset     *float64 `json:"reset_seconds"` // until more remain, 0 when all do; null likewise
	Origin    string   `json:"origin"`
}

// A Store is where budgets are counted.
type Store struct {
	Mode  string     `json:"mode"`            // memory, shared; or what holds while the shared store is away: local, allow, deny
	Since *time.Time `json:"since,omitempty"` // the mode has been the same
	// Replicas is how many gateways divide the limits among them in mode local; 0 for a store that gateways do not share.
	Replicas int      `json:"replicas,omitempty"`
	Breaker  *Breaker `json:"breaker"`         // null for a store that needs none
	Error    string   `json:"error,omitempty"` // why what is left cannot be told
}

// TokenLimits are the limits of one token.
type TokenLimits struct {
	At      time.Time `json:"at"`
	Version string    `json:"config_version"`
	Subject
	TokenState
}

// A BusyToken is one of those that ask most. The numbers fade as time goes by.
type BusyToken struct {
	TokenID  string `json:"token_id"`
	TeamID   string `json:"team_id"`
	Requests uint64 `json:"requests"`
	Denied   uint64 `json:"denied"`
	Error    uint64 `json:"error"` // by how much Requests may be too high
}

// A Configuration is what a gateway is configured to do.
type Configuration struct {
	Version    string    `json:"version"`
	Since      time.Time `json:"since"`
	File       string    `json:"file"` // "" for none
	LastReload *Reload   `json:"last_reload"`
	Values     []Value   `json:"values"`
}

// A Reload is an attempt to take over a changed configuration.
type Reload struct {
	At       time.Time `json:"at"`
	Why      string    `json:"why"`
	Outcome  string    `json:"outcome"`
	Problems []string  `json:"problems,omitempty"`
}

// A Value is what a key has, and where that was given. Of a secret it shows no more than that there is one.
type Value struct {
	Key    string `json:"key"`
	Value  string `json:"value"`
	Origin string `json:"origin"`
}

// Seconds returns a duration in seconds, rounded up to milliseconds: whoever waits that long has waited long enough.
func Seconds(d time.Duration) float64 { return math.Ceil(d.Seconds()*1e3) / 1e3 }
