package config

import (
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"

	"opsgate/ratelimit"
)

// RateLimit is the limits of tokens and where requests are counted.
type RateLimit struct {
	Store            Store        `yaml:"store" restart:"chosen at start" doc:"Where requests are counted: in each process, or in Redis."`
	OnStoreFailure   StoreFailure `yaml:"on_store_failure" doc:"While Redis fails: apply a share, admit all, or answer 503 and be not ready."`
	ExpectedReplicas Number       `yaml:"expected_replicas" min:"1" max:"10000" doc:"Gateways that share the limits in an outage, or auto."`

	Redis Redis `yaml:"redis" restart:"connected at start" doc:"The Redis for store: redis, with maxmemory-policy noeviction."`

	Limits  []Limit   `yaml:"limits" doc:"One to four; every request must pass all."`
	Classes Classes   `yaml:"classes" doc:"Limits by class name, of the teams and tokens that the class lists and of those for which identity names it."`
	Teams   Overrides `yaml:"teams" doc:"Limits of each token of a team instead of those of a class, by team id."`
	Tokens  Overrides `yaml:"tokens" doc:"Limits of one token instead of those of its team, by token id."`
}

// A Store is where requests are counted.
type Store string

// Values of Store.
const (
	StoreMemory Store = "memory"
	StoreRedis  Store = "redis"
)

func (Store) choices() []string { return []string{string(StoreMemory), string(StoreRedis)} }

// A StoreFailure is how requests are decided while the store is unavailable.
type StoreFailure string

// Values of StoreFailure.
const (
	FailLocal = StoreFailure(ratelimit.ModeLocal) // each gateway applies its share of the limits
	FailAllow = StoreFailure(ratelimit.ModeAllow) // every request is admitted
	FailDeny  = StoreFailure(ratelimit.ModeDeny)  // every request fails
)

func (StoreFailure) choices() []string {
	return []string{string(FailLocal), string(FailAllow), string(FailDeny)}
}

// A Limit is the maximum number of requests of a token in any interval of a length.
type Limit struct {
	Name     string   `yaml:"name" doc:"Name that clients see; by default from the interval: second, hour, 10s."`
	Requests int      `yaml:"requests" min:"0" max:"1000000000" doc:"Maximum number of requests; 0 blocks all."`
	Per      Duration `yaml:"per" min:"1ms" max:"744h" doc:"In any interval of this length."`
	Shadow   bool     `yaml:"shadow" doc:"Count but do not deny, to try a limit."`
}

// Classes are classes by their names.
type Classes map[string]Class

// A Class is the limits of some teams and tokens instead of the default. It also applies to the
// tokens for which the identity service states its name. The class of a token takes precedence over
// the class of its team.
type Class struct {
	Limits  []Limit  `yaml:"limits" doc:"One to four; every request must pass all."`
	Teams   []string `yaml:"teams" doc:"Ids of teams; the limits apply to each of their tokens separately."`
	Tokens  []string `yaml:"tokens" doc:"Ids of tokens."`
	Owner   string   `yaml:"owner" chars:"200" doc:"Contact."`
	Reason  string   `yaml:"reason" chars:"200" doc:"Reason."`
	Expires Time     `yaml:"expires" doc:"When the class ends, as 2026-01-31T12:00:00Z; never by default."`
}

var (
	className = regexp.MustCompile(`^[a-zA-Z0-9._-]{1,32}$`)
	id        = regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)
)

const (
	classNameWords = "1 to 32 characters of a-z, A-Z, 0-9, ., _ and -"
	idWords        = "an id, which is a UUID in lower case"
)

// names reserves the words that metrics use for assignments other than classes.
func (Classes) names() nameForm {
	reserved := []string{ratelimit.ClassDefault, ratelimit.ClassTeam, ratelimit.ClassToken}
	return nameForm{pattern: className, words: classNameWords, reserved: reserved}
}

// Overrides are limits by the id of a team or token.
type Overrides map[string]Override

// An Override is the limits of one team or token instead of the default and of classes.
type Override struct {
	Limits  []Limit `yaml:"limits" doc:"One to four; every request must pass all."`
	Owner   string  `yaml:"owner" chars:"200" doc:"Contact."`
	Reason  string  `yaml:"reason" chars:"200" doc:"Reason."`
	Expires Time    `yaml:"expires" doc:"When the override ends, as 2026-01-31T12:00:00Z; never by default."`
}

func (Overrides) names() nameForm { return nameForm{pattern: id, words: idWords} }

func defaultRateLimit() RateLimit {
	return RateLimit{
		Store:            StoreMemory,
		OnStoreFailure:   FailLocal,
		ExpectedReplicas: Auto,
		Redis: Redis{
			Mode:      RedisAuto,
			Addresses: []string{"127.0.0.1:6379"},
			KeyPrefix: "opsgate:",
			Timeout:   Duration(50 * time.Millisecond),
		},
		Limits: []Limit{
			{Name: "second", Requests: 3, Per: seconds(1)},
			{Name: "hour", Requests: 5000, Per: seconds(3600)},
		},
	}
}

const (
	limitsKey  = "rate_limit.limits"
	classesKey = "rate_limit.classes"
	teamsKey   = "rate_limit.teams"
	tokensKey  = "rate_limit.tokens"
)

// An Assignment is the limits of one key, with the teams and tokens that they apply to.
type Assignment struct {
	Override

	Class         string   // the Class of a [ratelimit.Assignment]
	Key           string   // rate_limit.limits, or for example rate_limit.classes.partner
	Teams, Tokens []string // none for the default

	limitsKey string // the key of the list of limits
}

// Assignments returns the default assignment, then the classes, then the teams and then the tokens,
// each sorted by name or id.
func (c RateLimit) Assignments() []Assignment {
	list := []Assignment{{Class: ratelimit.ClassDefault, Key: limitsKey, limitsKey: limitsKey,
		Override: Override{Limits: c.Limits}}}
	for _, name := range slices.Sorted(maps.Keys(c.Classes)) {
		class := c.Classes[name]
		list = append(list, Assignment{
			Class: name, Key: entryKey(classesKey, name), Teams: class.Teams, Tokens: class.Tokens,
			Override: Override{Limits: class.Limits, Owner: class.Owner, Reason: class.Reason, Expires: class.Expires},
		})
	}
	for _, id := range slices.Sorted(maps.Keys(c.Teams)) {
		list = append(list, Assignment{Class: ratelimit.ClassTeam, Key: entryKey(teamsKey, id), Teams: []string{id},
			Override: c.Teams[id]})
	}
	for _, id := range slices.Sorted(maps.Keys(c.Tokens)) {
		list = append(list, Assignment{Class: ratelimit.ClassToken, Key: entryKey(tokensKey, id), Tokens: []string{id},
			Override: c.Tokens[id]})
	}
	for i := range list[1:] {
		list[i+1].limitsKey = list[i+1].Key + ".limits"
	}
	return list
}

// PolicyLimits converts limits for [ratelimit.NewPolicy].
func PolicyLimits(limits []Limit) []ratelimit.Limit {
	list := make([]ratelimit.Limit, len(limits))
	for i, l := range limits {
		list[i] = ratelimit.Limit{Name: l.Name, Requests: l.Requests, Per: time.Duration(l.Per), Shadow: l.Shadow}
	}
	return list
}

// nameLimits names the limits without a name after their interval.
func (c RateLimit) nameLimits() {
	for _, assignment := range c.Assignments() {
		for i := range assignment.Limits {
			if limit := &assignment.Limits[i]; limit.Name == "" {
				limit.Name = limitName(limit.Per)
			}
		}
	}
}

func limitName(per Duration) string {
	switch time.Duration(per) {
	case time.Second:
		return "second"
	case time.Minute:
		return "minute"
	case time.Hour:
		return "hour"
	case 24 * time.Hour:
		return "day"
	}
	return per.String()
}

// rateLimit checks all limits, and that no team or token is in two classes.
func (v *validator) rateLimit() {
	teams, tokens := make(map[string]string), make(map[string]string)
	for _, a := range v.loaded.RateLimit.Assignments() {
		v.limits(a.limitsKey, a.Limits)
		if a.Class != ratelimit.ClassTeam && a.Class != ratelimit.ClassToken {
			v.members(a.Key+".teams", a.Teams, teams)
			v.members(a.Key+".tokens", a.Tokens, tokens)
		}
	}
}

// members checks the ids of a class and adds them to keys, which has the keys of the ids of all
// classes.
func (v *validator) members(key string, ids []string, keys map[string]string) {
	for i, member := range ids {
		at := fmt.Sprintf("%s[%d]", key, i)
		if !id.MatchString(member) {
			v.refuse(at, "must be %s", idWords) // without the value, which may be a token
		} else if other, taken := keys[member]; taken {
			v.refuse(at, "is %s, as is %s (%s): a team or token can be in one class only", member, other, v.loaded.where(other))
		} else {
			keys[member] = at
		}
	}
}

// limits checks the limits of one policy.
func (v *validator) limits(key string, limits []Limit) {
	if len(limits) < 1 || len(limits) > ratelimit.MaxLimits {
		v.refuse(key, "has %d limits; 1 to %d are allowed", len(limits), ratelimit.MaxLimits)
	} else if !slices.ContainsFunc(limits, func(l Limit) bool { return !l.Shadow }) {
		v.refuse(key, "has only shadow limits: at least one must be enforced")
	}
	// An enforced limit and a shadow limit, which tries another number, may have the same interval.
	type interval struct {
		per    Duration
		shadow bool
	}
	names, intervals := make(map[string]bool), make(map[interval]bool)
	for i, limit := range limits {
		at := fmt.Sprintf("%s[%d]", key, i)
		in := interval{limit.Per, limit.Shadow}
		if intervals[in] {
			v.refuse(at+".per", "is %s, as another limit has: only the smaller would apply", limit.Per)
		} else if names[limit.Name] {
			v.refuse(at+".name", "is %q, as another limit has", limit.Name)
		}
		names[limit.Name], intervals[in] = true, true
		if limit.Requests == 0 && !v.loaded.sets(at+".requests") {
			v.refuse(at+".requests", "is missing: it must be %s", requestsRange())
		} else if limit.Requests == 0 && limit.Shadow {
			v.refuse(at+".shadow", "has no use with requests: 0, which would deny every request")
		}
		if !className.MatchString(limit.Name) {
			v.refuse(at+".name", "must be %s, not %q", classNameWords, limit.Name)
		}
	}
	if v.hasProblem(key) {
		return
	}
	if _, err := ratelimit.NewPolicy(PolicyLimits(limits)); err != nil {
		v.refuse(key, "is not a valid policy: %v", err)
	}
}

// requestsRange returns the bounds of the requests of a limit as text.
func requestsRange() string {
	all := fields(reflect.TypeFor[Limit]())
	return all[slices.IndexFunc(all, func(f field) bool { return f.name == "requests" })].rangeText()
}

// hasProblem reports whether there is a problem with a list or its items.
func (v *validator) hasProblem(list string) bool {
	in := func(p Problem) bool { return p.Key == list || strings.HasPrefix(p.Key, list+"[") }
	return slices.ContainsFunc(v.problems, in) || slices.ContainsFunc(v.refused, in)
}

// rateLimit warns of limits without the intended effect.
func (w *warner) rateLimit() {
	c := w.loaded.RateLimit
	if c.Store == StoreRedis && c.OnStoreFailure == FailLocal && c.ExpectedReplicas == 1 {
		w.warn("rate_limit.expected_replicas",
			"is 1: in an outage of Redis, each gateway admits the full limits; auto counts the gateways")
	}
	for _, a := range c.Assignments() {
		w.unreached(a.limitsKey, a.Limits)
		w.blocksAll(a)
		if !a.Expires.IsZero() && !w.now.Before(a.Expires.Time) {
			w.warn(a.Key+".expires", "was %s: the limits of this key have no effect any more", a.Expires)
		}
	}
}

// blocksAll warns if the default blocks every request. A class, team or token is blocked on
// purpose.
func (w *warner) blocksAll(a Assignment) {
	i := slices.IndexFunc(a.Limits, func(l Limit) bool { return l.Requests == 0 })
	if i >= 0 && a.Class == ratelimit.ClassDefault {
		w.warn(fmt.Sprintf("%s[%d].requests", limitsKey, i), "is 0: every token without other limits is blocked")
	}
}

// unreached warns of limits that no token can reach because a limit of a shorter interval admits
// fewer requests.
func (w *warner) unreached(key string, limits []Limit) {
	for i, long := range limits {
		for _, short := range limits {
			if short.Shadow || short.Per >= long.Per || short.Requests == 0 { // 0 is meant to block
				continue
			}
			// The requests that the shorter limit admits in the longer interval.
			admitted := (int64(long.Per) + int64(short.Per) - 1) / int64(short.Per) * int64(short.Requests)
			if admitted < int64(long.Requests) {
				w.warn(fmt.Sprintf("%s[%d].requests", key, i), "is %d, which no token reaches: %d per %s admit %d in %s",
					long.Requests, short.Requests, short.Per, admitted, long.Per)
				break
			}
		}
	}
}
