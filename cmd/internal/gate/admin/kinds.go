package admin

import (
	"slices"
	"strings"
)

// A kind is what findings of a kind have in common, a line each. NAME stands for the dependency.
type kind struct {
	verdict  string
	impact   string // what clients see
	deadline string // when it becomes worse, and what happens then, or when it ends
	action   string // the first thing to do
	runbook  string
}

const (
	uncachedTokens = "requests with a token that is not cached get 503; cached tokens work"
	staleForKey    = "authn.stale_for"
	freshForKey    = "authn.fresh_for"
	othersWork     = "; the rest of the API works"
	uncachedLater  = "cached tokens end " + staleForKey + " after their last lookup; then all requests get 503"
	untilRedis     = "it stays so until Redis answers"

	runbookRedis        = "limits.md#redis-is-unavailable"
	runbookStale        = "identity.md#tokens-are-served-stale"
	runbookCertificates = "configuration.md#a-certificate-is-refused"
)

// kinds has the kinds by the beginning of a finding's key, up to a colon. The longest one applies.
var kinds = map[string]kind{
	"draining": {
		verdictImpaired, "balancers send it no more requests; those in flight end",
		"it stops after shutdown.drain_wait and shutdown.grace",
		"nothing during a deployment; else find in its log what stopped it", "gateways.md#a-gateway-is-draining",
	},
	"breaker": {
		verdictBroken, "requests that need NAME get 503 at once if the last call of their team failed" + othersWork,
		"when the breakers of more methods open; it ends when the probes of NAME succeed",
		"read the log of NAME, and see what was deployed last", "services.md#a-breaker-is-open",
	},
	"connection": {
		verdictBroken, "requests that need NAME get 503" + othersWork, "it stays so until NAME answers",
		"see whether NAME runs and answers at upstreams.NAME.address", "gateways.md#a-gateway-is-degraded",
	},
	"outage": {
		verdictBroken, "requests that need NAME get 503", "it stays so until a process answers at this address",
		"see whether a process runs and answers at this address; then read its log", "gateways.md#a-gateway-is-degraded",
	},
	"connection:revocations": {
		verdictImpaired, "requests are served; a revoked token works for up to " + freshForKey + " longer",
		"if lookups fail too, revoked tokens work for up to " + staleForKey,
		"see in the log of identity why it ends the stream",
		"identity.md#revocations-are-not-received",
	},
	"connection:capacity": {
		verdictBroken, "some requests get 503 at once and are not counted",
		"with more or slower requests, more of them get 503",
		"find the slow service below; else add gateways", "gateways.md#a-gateway-is-full",
	},
	"connection:connections": {
		verdictBroken, "idle connections are closed; if none is idle, new ones are refused",
		"as clients open more, more are refused",
		"see in the access log who opens them; else add gateways", "gateways.md#a-gateway-has-too-many-connections",
	},
	"wrong": {
		verdictBroken, "requests that need NAME and go to these addresses get 501",
		"it stays so until NAME is at its addresses",
		"set upstreams.NAME.address to the address of NAME, and reload", "services.md#wrong-service-at-an-address",
	},
	"limiter:local": {
		verdictImpaired, "requests are served; each gateway enforces its share of the limits", untilRedis, findRedis,
		runbookRedis,
	},
	"limiter:allow": {
		verdictImpaired, "requests are served without limits; services get all that clients send",
		"if that is beyond the capacity of services, they fail; " + untilRedis, findRedis, runbookRedis,
	},
	"limiter:deny": {verdictBroken, "every request gets 503", untilRedis, findRedis, runbookRedis},
	"eviction": {
		verdictImpaired, "a token whose usage was evicted may send as much again",
		"with each key that Redis evicts while its memory is full",
		"raise maxmemory to 500 bytes for each token in use, then set maxmemory-policy noeviction",
		"limits.md#redis-evicts-keys",
	},
	"classes": {
		verdictImpaired, "tokens of these classes have the default limits",
		"it stays so until the names agree, and a minute longer",
		"add the class to rate_limit.classes and reload, or correct it in identity",
		"limits.md#a-class-of-limits-is-unknown",
	},
	"slow": {
		verdictImpaired, "requests that need NAME miss the promised 500 ms; those that reach their deadline get 504",
		"when http.max_in_flight requests wait for it, others get 503",
		"see what NAME waits for, usually its database, and what was deployed last", "services.md#a-service-is-slow",
	},
	"failures": {
		verdictImpaired, "500, 503 or 504 on these routes",
		"if a service is the cause and its breaker opens, all requests that need it get 503",
		"see the dependencies below; else search the log for these routes", "promises.md#clients-read-5xx",
	},
	"certificate": {
		verdictImpaired, "none until it expires", "it stays so until it is renewed",
		"renew it and replace its file; a restart is not needed", "configuration.md#a-certificate-expires",
	},
	"reload": {
		verdictImpaired, "requests are served with the configuration from before",
		"a restart may fail, or begin with the new configuration",
		"read its problems; then run opsgate check --live and opsgate diff with its file", "configuration.md#a-reload-failed",
	},
	"refused": {
		verdictBroken, "requests that need these methods of NAME get 500, or 404 for resources that exist",
		"it stays so until NAME admits this gateway",
		"see which policy or certificate admits callers of NAME, and what was changed last",
		"services.md#a-service-refuses-the-gateway",
	},
	"dns": {
		verdictImpaired, "none while the addresses from before answer",
		"once these addresses have changed, requests that need NAME get 503",
		"look up the host of upstreams.NAME.address with dig on this machine, and restore its record or the name server",
		"services.md#the-name-of-a-service-does-not-resolve",
	},
	"endpoints": {
		verdictImpaired, "none while the remaining endpoints of NAME keep up",
		"if the last one fails, requests that need NAME get 503",
		"see whether the endpoints below run, and what was deployed last", "services.md#one-endpoint-of-a-service-fails",
	},
}

// finding returns the finding of a key, with what its kind states. Outages of identity have the
// same consequences, whatever their kind.
func (s *State) finding(key, text, detail string) *Finding {
	var k kind
	for found, prefix := false, key; !found && prefix != ""; prefix = prefix[:max(0, strings.LastIndexByte(prefix, ':'))] {
		k, found = kinds[prefix]
	}
	of, name, _ := strings.Cut(key, ":")
	if name == dependencyIdentity && k.verdict == verdictBroken {
		k.impact, k.deadline = uncachedTokens, uncachedLater
		if of == "breaker" || of == "connection" {
			k.runbook = runbookStale
		}
	}
	fill := strings.NewReplacer("need NAME", "need "+s.affected(name), "NAME", name, staleForKey, s.staleFor, freshForKey,
		s.freshFor).Replace
	return &Finding{
		Key: key, Verdict: k.verdict, Text: text, Detail: detail,
		Impact: fill(k.impact), Deadline: fill(k.deadline), Action: fill(k.action), Runbook: k.runbook,
	}
}

// affected returns services with the beginnings of the paths whose requests need them.
func (s *State) affected(names string) string {
	list := strings.Split(names, ",")
	for i, name := range list {
		var paths []string
		for _, route := range s.routes {
			parts := strings.SplitN(route.Path, "/", 4) // "", the version, the resource
			if path := strings.Join(parts[:min(3, len(parts))], "/"); route.Service == name && !slices.Contains(paths, path) {
				paths = append(paths, path)
			}
		}
		if name == dependencyIdentity {
			paths = []string{"tokens that are not cached"}
		}
		if paths != nil {
			list[i] += " (" + strings.Join(paths, ", ") + ")"
		}
	}
	return strings.Join(list, ", ")
}
