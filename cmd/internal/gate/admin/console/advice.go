package console

import (
	"cmp"
	"strings"
)

// An advice is what an operator reads first about a kind of finding, a line each. NAME stands for the dependency.
type advice struct {
	impact   string // what clients see
	deadline string // when it becomes worse, and what happens then, or when it ends
	action   string // the first thing to do
}

const (
	uncachedTokens = "requests with a token that is not cached get 503; cached tokens work"
	staleForKey    = "authn.stale_for"
	freshForKey    = "authn.fresh_for"
	uncachedLater  = "cached tokens end " + staleForKey + " after their last lookup; then all requests get 503"
	untilRedis     = "it stays so until Redis answers"
	oldConfig      = "requests are served with the configuration from before"
	restartFails   = "a restart may fail, or begin with the new configuration"
	findRedis      = "run redis-cli ping from this machine; then read the log of Redis"
)

// advices has the advice by the beginning of a finding's key, up to a colon. The longest one applies.
var advices = map[string]advice{
	"draining": {
		"balancers send it no more requests; those in flight end", "it stops after shutdown.drain_wait and shutdown.grace",
		"nothing during a deployment; else find in its log what stopped it",
	},
	"breaker": {
		"requests that need NAME get 503 at once if the last call of their team failed; the rest of the API works",
		"when the breakers of more methods open; it ends when the probes of NAME succeed",
		"read the log of NAME, and see what was deployed last",
	},
	"breaker:identity": {uncachedTokens, uncachedLater, "read the log of identity, and see what was deployed last"},
	"connection": {
		"requests that need NAME get 503; the rest of the API works",
		"it stays so until NAME answers",
		"see whether NAME runs and answers at upstreams.NAME.address",
	},
	"wrong": {
		"requests that need NAME and go to these addresses get 501",
		"it stays so until NAME is at its addresses",
		"set upstreams.NAME.address to the address of NAME, and reload",
	},
	"wrong:identity":      {uncachedTokens, uncachedLater, "set upstreams.identity.address to the address of identity, and reload"},
	"connection:identity": {uncachedTokens, uncachedLater, "see whether identity runs and answers at upstreams.identity.address"},
	"connection:revocations": {
		"requests are served; a revoked token works for up to " + freshForKey + " longer",
		"if lookups fail too, revoked tokens work for up to " + staleForKey, "see in the log of identity why it ends the stream",
	},
	"connection:capacity": {
		"some requests get 503 at once and are not counted",
		"with more or slower requests, more of them get 503",
		"find the slow service below; else add gateways",
	},
	"connection:connections": {
		"idle connections are closed; if none is idle, new ones are refused",
		"as clients open more, more are refused",
		"see in the access log who opens them; else add gateways",
	},
	"limiter:local": {"requests are served; each gateway enforces its share of the limits", untilRedis, findRedis},
	"limiter:allow": {
		"requests are served without limits; services get all that clients send",
		"if that is beyond the capacity of services, they fail; " + untilRedis, findRedis,
	},
	"limiter:deny": {"every request gets 503", untilRedis, findRedis},
	"eviction": {
		"a token whose usage was evicted may send as much again", "with each key that Redis evicts while its memory is full",
		"raise maxmemory to 500 bytes for each token in use, then set maxmemory-policy noeviction",
	},
	"slow": {
		"requests that need NAME miss the promised 500 ms; those that reach their deadline get 504",
		"when http.max_in_flight requests wait for it, others get 503",
		"see what NAME waits for, usually its database, and what was deployed last",
	},
	"failures": {
		"500, 503 or 504 on these routes",
		"if a service is the cause and its breaker opens, all requests that need it get 503",
		"see the dependencies below; else search the log for these routes",
	},
	"certificate": {action: "renew it and replace its file; a restart is not needed"},
	"reload":      {oldConfig, restartFails, "read its problems; then run opsgate check --live and opsgate diff with its file"},
	"refused": {
		"requests that need these methods of NAME get 500, or 404 for resources that exist",
		"it stays so until NAME admits this gateway",
		"see which policy or certificate admits callers of NAME, and what was changed last",
	},
	"refused:identity": {uncachedTokens, uncachedLater, "see which policy or certificate admits callers of identity"},
	"dns": {
		"none while the addresses from before answer", "once these addresses have changed, requests that need NAME get 503",
		"look up the host of upstreams.NAME.address with dig on this machine, and restore its record or the name server",
	},
	"endpoints": {
		"none while the remaining endpoints of NAME keep up", "if the last one fails, requests that need NAME get 503",
		"see whether the endpoints below run, and what was deployed last",
	},
}

// servicePaths has the beginnings of the paths whose requests need a service.
var servicePaths = map[string]string{
	"audit": "/v1/audit", "fleet": "/v1/servers, /v1/server-groups", "incident": "/v1/incidents, /v1/status-pages",
	"monitoring": "/v1/monitors",
}

// adviceFor returns the advice for the key of a finding. After "need", NAME is followed by the paths that need the service.
func adviceFor(key string) advice {
	kind := key
	a, found := advices[kind]
	for !found && kind != "" {
		kind = kind[:max(0, strings.LastIndexByte(kind, ':'))]
		a, found = advices[kind]
	}
	_, name, _ := strings.Cut(key, ":")
	affected := name
	if paths := servicePaths[name]; paths != "" {
		affected += " (" + paths + ")"
	}
	text := strings.NewReplacer("need NAME", "need "+affected, "NAME", name).Replace
	return advice{text(a.impact), text(a.deadline), text(a.action)}
}

// advise fills what the finding does not say itself.
func (f *Finding) advise() {
	a := adviceFor(f.Key)
	f.Impact, f.Deadline, f.Action = cmp.Or(f.Impact, a.impact), cmp.Or(f.Deadline, a.deadline), cmp.Or(f.Action, a.action)
}
