package admin

import (
	"cmp"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc/connectivity"

	"opsgate/authn"
	"opsgate/backendclient"
	"opsgate/backendclient/breaker"
	"opsgate/backendclient/endpoints"
	"opsgate/cmd/internal/gate/config"
	"opsgate/ratelimit"
)

// Names of dependencies that the package treats differently. The others are internal services.
const (
	dependencyIdentity    = "identity"
	dependencyRedis       = "redis"
	dependencyRevocations = "revocations" // the identity service's stream
)

// Condition is what unauthenticated clients may read of a dependency. It has no text of a service.
type Condition struct {
	State  string `json:"state"`            // "ready", "connecting", …
	Reason string `json:"reason,omitempty"` // why the dependency is not OK
	Action string `json:"action,omitempty"` // the first thing to do about the reason, if it is known
}

// Dependency is the state of a resource that the gateway needs.
type Dependency struct {
	Name string `json:"name"`
	Condition

	OK          bool            `json:"ok"`
	Since       time.Time       `json:"since,omitzero"` // when OK became false; zero if OK or unknown
	Verdict     string          `json:"verdict"`        // of its most severe finding, or "well"
	Breaker     *breaker.Status `json:"breaker"`        // nil for a dependency without a breaker
	BreakerText string          `json:"breaker_text"`   // its state, for how long, and what follows
	// calls in flight, or the use of a limit; "" if not counted
	InUse     string             `json:"in_use"`
	Endpoints []endpoints.Status `json:"endpoints"`          // of an internal service
	Latencies *Latencies         `json:"latencies,omitzero"` // nil for a dependency that has not been called

	notReady bool                          // the gateway must not get requests
	wrong    *backendclient.WrongEndpoints // nil unless another service is at an address of this one
	lookup   *endpoints.FailedLookup       // nil unless the name of the service does not resolve now
	teamName string                        // of the team whose calls alone the breaker refuses; "" if unknown
	// tokensUntil is when the last cached token ends; zero unless lookups of the identity service
	// fail.
	tokensUntil time.Time
}

// dependencies returns the state of each dependency, with the reason if it is not OK: the services,
// and then the others, in the order of the page. It is called for each scrape, and does not block.
func (a *Admin) dependencies(now time.Time) (list []*Dependency) {
	services, reached := a.options.Clients.Services(), make(map[string]time.Time)
	for _, name := range slices.Sorted(maps.Keys(services)) {
		s, unreachable := services[name], ""
		if s.Unreachable != nil {
			unreachable = s.Unreachable.Reason
		}
		d := newService(name, s.Connection, s.Breaker, unreachable, now)
		d.Since = cmp.Or(d.Breaker.TrippedAt, s.UnavailableSince)
		d.Endpoints, d.lookup = s.Endpoints, s.FailedLookup
		if s.Wrong != nil {
			d.setWrong(*s.Wrong)
		}
		if !s.Reached.IsZero() {
			reached[name] = s.Reached
		}
		if name == dependencyIdentity {
			d.addLookups(a.options.Authenticator, now)
		}
		list = append(list, d)
	}
	a.startup.apply(list, reached, now)
	if a.options.Redis != nil {
		list = append(list, newRedis(a.store(), now))
	}
	list = append(list, newRevocations(a.options.Authenticator.DisconnectedFor(), now))
	for _, c := range a.capacities {
		if c.Name != "" {
			list = append(list, c.dependency(now))
		}
	}
	return list
}

// newService returns the state of an internal service by its connection and its breaker.
// unreachable is the reason why it gets no calls or has never answered one, or "".
func newService(
	name string, state connectivity.State, b breaker.Status, unreachable string, now time.Time,
) *Dependency {
	d := &Dependency{Name: name, Breaker: &b, OK: unreachable == "" && b.State == breaker.Closed}
	d.BreakerText = breakerText(b, now)
	d.State = strings.ToLower(state.String())
	if state == connectivity.TransientFailure {
		d.State = "unavailable"
	}
	if b.State != breaker.Closed {
		d.State, d.Reason = "breaker "+string(b.State), "breaker "+d.BreakerText
	} else if unreachable != "" && state == connectivity.Ready {
		d.State = "not reached"
	}
	if cause := cmp.Or(unreachable, sanitizeCause(b.Cause)); cause != "" && !d.OK {
		d.Reason = strings.TrimPrefix(d.Reason+": "+cause, ": ")
	}
	return d
}

// breakerText returns the state of a breaker, for how long, and what follows, without the team's
// id, which unauthenticated clients must not see.
func breakerText(b breaker.Status, now time.Time) string {
	text := string(b.State)
	if b.State != breaker.Closed {
		text += forTime(b.TrippedAt, now)
	}
	if len(b.Methods) > 0 {
		text += ", for " + strings.Join(b.Methods, ", ")
	}
	if b.Team != "" {
		text += ", for one team"
	}
	switch {
	case b.State == breaker.HalfOpen:
		return text + ", a few calls are allowed"
	case b.State != breaker.Open || b.HalfOpenAt.IsZero():
		return text
	case b.HalfOpenAt.After(now):
		return text + ", next probe in " + config.RoundedDuration(b.HalfOpenAt.Sub(now)+time.Second/2-1) // rounded up
	}
	return text + ", the next call is a probe"
}

// setWrong sets the state of a service with endpoints of another one.
func (d *Dependency) setWrong(wrong backendclient.WrongEndpoints) {
	d.OK, d.State, d.Since = false, "wrong service", wrong.Since
	d.wrong = &wrong
	d.Reason = fmt.Sprintf("%d of %d addresses of upstreams.%s.address answer as another service",
		len(wrong.Addresses), len(d.Endpoints), d.Name)
}

// addLookups adds the problems of an identity service that resolves no token, or whose answers
// break the contract. Another problem takes precedence as the state.
func (d *Dependency) addLookups(tokens *authn.Authenticator, now time.Time) {
	failingFor, cachedTokensFor := tokens.LookupsFailing()
	brokenFor, err := tokens.ContractError()
	if failingFor > 0 {
		d.tokensUntil = now.Add(cachedTokensFor)
	}
	switch {
	case !d.OK:
	case failingFor > 0:
		d.OK, d.State, d.Since = false, "lookups fail", now.Add(-failingFor)
		d.Reason = "for " + config.RoundedDuration(failingFor) +
			" no lookup of a token has succeeded: tokens that are not cached get 503"
	case err != nil:
		d.OK, d.State, d.Since = false, "invalid answers", now.Add(-brokenFor)
		d.Reason = "for " + config.RoundedDuration(brokenFor) +
			" it has returned token ids or team ids that are not UUIDs: tokens that are not cached get 500"
	}
}

// newRevocations returns the state of the revocation stream.
func newRevocations(disconnected time.Duration, now time.Time) *Dependency {
	d := &Dependency{Name: dependencyRevocations, Condition: Condition{State: "ready"}, OK: disconnected == 0}
	if !d.OK {
		d.State, d.Since = "unavailable", now.Add(-disconnected)
		d.Reason = "the stream has been disconnected for " + config.RoundedDuration(disconnected) +
			": revocations take effect late"
	}
	return d
}

// Store is the state of the rate limit store.
type Store struct {
	Mode  ratelimit.Mode `json:"mode"`
	Since *time.Time     `json:"since,omitempty"` // when the mode began
	// Replicas is the number of gateways that divide the limits in mode local; 0 for mode memory.
	Replicas int `json:"replicas,omitempty"`
	// EvictingServers is the number of Redis servers whose maxmemory-policy evicts keys, as far as
	// the gateway may read it. EvictedKeys were evicted since the gateway started.
	EvictingServers int64 `json:"evicting_servers,omitempty"`
	EvictedKeys     int64 `json:"evicted_keys,omitempty"`

	Breaker *breaker.Status `json:"breaker"`         // of Redis; null for mode memory
	Error   string          `json:"error,omitempty"` // why the limits' state is unknown
}

// store returns the state of the store of rate limits.
func (a *Admin) store() Store {
	redis := a.options.Redis
	if redis == nil {
		return Store{Mode: ratelimit.ModeMemory}
	}
	state := redis.Limits.State()
	b := &breaker.Status{State: breaker.Closed}
	if state.Cause != nil {
		b = &breaker.Status{State: breaker.Open, Cause: state.Cause.Error(), TrippedAt: state.Since}
	}
	evicting, evicted := redis.Gateways.Eviction()
	return Store{
		Mode: state.Mode, Since: &state.Since, Replicas: redis.DividedBy(), EvictingServers: evicting, EvictedKeys: evicted,
		Breaker: b,
	}
}

// newRedis returns the state of Redis; in an outage, State has the mode of the limits. A gateway
// that denies all requests is not ready, so that balancers send them to gateways that reach Redis.
func newRedis(s Store, now time.Time) *Dependency {
	d := &Dependency{Name: dependencyRedis, Condition: Condition{State: "ready"}, OK: s.Mode == ratelimit.ModeShared,
		Breaker: s.Breaker}
	d.BreakerText = breakerText(*s.Breaker, now)
	if d.OK {
		return d
	}
	d.State, d.Since, d.notReady = "unavailable, limits are "+string(s.Mode), *s.Since, s.Mode == ratelimit.ModeDeny
	d.Reason = "not in use for " + config.RoundedDuration(now.Sub(d.Since))
	reason, action := redisCause(s.Breaker.Cause)
	if d.Action = action; reason != "" {
		d.Reason += ": " + reason
	}
	return d
}

const (
	// overloadCheckEvery is the interval of overload checks.
	overloadCheckEvery = 500 * time.Millisecond
	// recoveryPeriod is the time without refusals after which an overload ends. Shorter pauses do
	// not split an overload.
	recoveryPeriod = 10 * time.Second
)

// A Capacity is a maximum of what requests or connections occupy at a time. Past it, some are
// refused: the beginning and the end of each overload are logged. The gateway stays ready, because
// load balancers would move its traffic to others and overload them too.
type Capacity struct {
	Name     string                                      // on the readiness page; "" for none
	Resource string                                      // what is limited, in words
	Stats    func() (current, limit int, refused uint64) // refused counts from the start of the process
}

// A monitoredCapacity is a capacity with its overload.
type monitoredCapacity struct {
	Capacity

	mu            sync.Mutex
	since         time.Time // beginning of the overload; zero for none
	lastRefusal   time.Time
	refused       uint64 // at the last check
	refusedBefore uint64 // at the beginning of the overload
}

// check starts or ends the overload, by what was refused since the last check.
func (c *monitoredCapacity) check(logger *slog.Logger, now time.Time) {
	_, limit, refused := c.Stats()
	c.mu.Lock()
	defer c.mu.Unlock()
	if refused != c.refused {
		if c.since.IsZero() {
			c.since, c.refusedBefore = now, c.refused
			logger.Warn("overloaded", slog.String("resource", c.Resource), slog.Int("limit", limit))
		}
		c.lastRefusal, c.refused = now, refused
		return
	}
	if !c.since.IsZero() && now.Sub(c.lastRefusal) >= recoveryPeriod {
		logger.Info("not overloaded any more", slog.String("resource", c.Resource),
			slog.Uint64("refused", c.refused-c.refusedBefore),
			slog.String("lasted", config.RoundedDuration(c.lastRefusal.Sub(c.since))))
		c.since = time.Time{}
	}
}

// dependency returns the state of the capacity.
func (c *monitoredCapacity) dependency(now time.Time) *Dependency {
	current, limit, _ := c.Stats()
	c.mu.Lock()
	defer c.mu.Unlock()
	d := &Dependency{
		Name: c.Name, Condition: Condition{State: "ready"}, OK: c.since.IsZero(), Since: c.since,
		InUse: fmt.Sprintf("%d of %d", current, limit),
	}
	if !d.OK {
		d.State = "overloaded"
		d.Reason = fmt.Sprintf("more than %d %s for %s; %d now", limit, c.Resource, config.RoundedDuration(now.Sub(c.since)),
			current)
	}
	return d
}
