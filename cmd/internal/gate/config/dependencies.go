package config

import (
	"fmt"
	"iter"
	"net"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"
)

// Upstreams are the addresses of the internal services.
type Upstreams struct {
	Fleet      Upstream `yaml:"fleet" doc:"Servers, groups, metrics and commands."`
	Monitoring Upstream `yaml:"monitoring" doc:"Monitors and their checks."`
	Incident   Upstream `yaml:"incident" doc:"Incidents and status pages."`
	Audit      Upstream `yaml:"audit" doc:"The audit log."`
	Identity   Upstream `yaml:"identity" doc:"Tokens."`
}

// An Upstream is the address of an internal service.
type Upstream struct {
	Address string    `yaml:"address" doc:"gRPC target: dns:///fleet.internal:9000, or a list static:///a:9000,b:9000."`
	TLS     ClientTLS `yaml:"tls" doc:"TLS to the service. Its files are read again for each connection."`
}

// ClientTLS is the TLS of connections that the gateway makes.
type ClientTLS struct {
	Enabled    bool   `yaml:"enabled" doc:"Whether connections use TLS."`
	CAFile     File   `yaml:"ca_file" doc:"Roots of the server's certificate; by default those of the system."`
	CertFile   File   `yaml:"cert_file" doc:"The gateway's client certificate, if the server requires one."`
	KeyFile    File   `yaml:"key_file" doc:"Key of cert_file."`
	ServerName string `yaml:"server_name" doc:"Name in the server's certificate, if it differs from the address."`
}

// UpstreamCalls limits the calls to internal services.
type UpstreamCalls struct {
	MaxResponseBytes Bytes   `yaml:"max_response_bytes" min:"64KiB" max:"256MiB" doc:"Maximum size of a response."`
	MaxInFlight      int     `yaml:"max_in_flight" min:"1" max:"100000" doc:"Maximum of calls in flight to one service; 503 above it."`
	Breaker          Breaker `yaml:"breaker" doc:"Circuit breaker of each service. A change closes all breakers."`
	Retries          Retries `yaml:"retries" doc:"Retries of reads, and of writes with an idempotency key, if a service is unavailable."`
}

// Breaker configures the circuit breaker of each service.
type Breaker struct {
	MinRequests int      `yaml:"min_requests" min:"1" max:"100000" doc:"Minimum number of calls before a breaker can open."`
	FailureRate Percent  `yaml:"failure_rate" min:"1%" max:"100%" doc:"Fraction of failed calls at which a breaker opens."`
	OpenFor     Duration `yaml:"open_for" min:"500ms" max:"5m" doc:"How long a breaker is open, and how often a failing team may make a call."`
}

// Retries limits the retries of calls.
type Retries struct {
	Max    int     `yaml:"max" min:"0" max:"5" doc:"Maximum number of retries of one call."`
	Budget Percent `yaml:"budget" min:"0%" max:"100%" doc:"Fraction of answered calls that may be retried, in addition to ten."`
}

func defaultUpstreamCalls() UpstreamCalls {
	return UpstreamCalls{
		MaxResponseBytes: 8 * mebi,
		MaxInFlight:      512,
		Breaker:          Breaker{MinRequests: 10, FailureRate: 50 * percent, OpenFor: seconds(3)},
		Retries:          Retries{Max: 2, Budget: 10 * percent},
	}
}

// all returns the upstreams by name.
func (u Upstreams) all() iter.Seq2[string, Upstream] {
	return func(yield func(string, Upstream) bool) {
		value := reflect.ValueOf(u)
		for _, f := range fields(value.Type()) {
			if upstream, ok := reflect.TypeAssert[Upstream](value.FieldByIndex(f.Index)); ok && !yield(f.name, upstream) {
				return
			}
		}
	}
}

// Authn is the cache of tokens and its lookups.
type Authn struct {
	FreshFor      Duration `yaml:"fresh_for" min:"1s" max:"1h" doc:"Time that a confirmed token is used without a new lookup; a third while the revocation stream is down."`
	StaleFor      Duration `yaml:"stale_for" min:"1s" max:"24h" doc:"The same while the identity service is unavailable."`
	LookupTimeout Duration `yaml:"lookup_timeout" min:"10ms" max:"1m" doc:"Time for the identity service to respond."`
	MaxLookups    int      `yaml:"max_lookups" min:"1" max:"100000" doc:"Concurrent lookups of unknown tokens; others wait by network."`
	MaxEntries    int      `yaml:"max_entries" min:"100" max:"10000000" restart:"sized at start" doc:"Maximum tokens, of 480 bytes each."`
}

func defaultAuthn() Authn {
	return Authn{
		FreshFor:      seconds(30),
		StaleFor:      seconds(600),
		LookupTimeout: seconds(2),
		MaxLookups:    64,
		MaxEntries:    100_000,
	}
}

// maxStaleFor is the longest authn.stale_for without a warning.
const maxStaleFor = Duration(time.Hour)

// upstreams checks the form of the addresses as gRPC parses them, not whether a service responds.
func (v *validator) upstreams() {
	for name, upstream := range v.loaded.Upstreams.all() {
		v.target("upstreams."+name+".address", upstream.Address, name)
		v.clientTLS("upstreams."+name+".tls", upstream.TLS)
	}
}

func (v *validator) target(key, address, service string) {
	scheme, rest, found := strings.Cut(address, "://")
	switch {
	case address == "":
		v.refuse(key, "is required, as the address of the %s service", service)
	case !found:
		v.hostPort(key, strings.TrimPrefix(address, "dns:"))
	case scheme == "dns" || scheme == "passthrough":
		_, target, _ := strings.Cut(rest, "/") // rest begins with an authority: for dns, a name server or ""
		v.hostPort(key, target)
	case scheme == "static" && strings.HasPrefix(rest, "/"):
		v.staticList(key, rest[1:])
	case scheme != "unix" || rest == "":
		v.refuse(key, "must be host:port, dns:///host:port, static:///host:port,host:port, passthrough:///host:port or "+
			"unix:///path, not %q",
			address)
	}
}

// staticList checks a list of addresses: each is host:port, and none is repeated.
func (v *validator) staticList(key, list string) {
	addresses := strings.Split(list, ",")
	for i, address := range addresses {
		switch {
		case slices.Contains(addresses[:i], address):
			v.refuse(key, "contains %s twice", address)
		default:
			v.hostPort(key, address)
		}
	}
}

// clientTLS checks that TLS is enabled if one of its keys is set.
func (v *validator) clientTLS(key string, c ClientTLS) {
	v.pair(key, c.CertFile, c.KeyFile)
	if c.ServerName != "" && !hostForm.MatchString(c.ServerName) {
		v.refuse(key+".server_name", "must be a host name, not %q", c.ServerName)
	}
	if !c.Enabled && c != (ClientTLS{}) {
		v.refuse(key+".enabled", "is false, and other keys of tls are given: connections would not be encrypted")
	}
}

// plaintext warns of connections over a network without TLS: to internal services, whose answers
// determine the responses and the valid tokens, and to Redis if a password is sent.
func (w *warner) plaintext() {
	for name, upstream := range w.loaded.Upstreams.all() {
		if upstream.TLS.Enabled || isLocalTarget(upstream.Address) {
			continue
		}
		consequence := "read and change calls and answers"
		if name == "identity" {
			consequence = "have any token accepted"
		}
		w.warn("upstreams."+name+".address",
			"is %s, not on loopback, and upstreams.%s.tls.enabled is false: an attacker on the network can %s",
			upstream.Address, name, consequence)
	}
	r := w.loaded.RateLimit.Redis
	if w.loaded.RateLimit.Store != StoreRedis || r.TLS.Enabled {
		return
	}
	for _, address := range r.Addresses {
		if host, _, _ := net.SplitHostPort(address); IsLoopback(host) {
			continue
		}
		for _, secret := range []struct {
			key   string
			value Secret
		}{{"password", r.Password}, {"sentinel_password", r.SentinelPassword}} {
			if secret.value.Reveal() != "" {
				w.warn(redisKey+"."+secret.key, "goes to %s in plaintext: set rate_limit.redis.tls.enabled", address)
			}
		}
		return // one warning is enough
	}
}

// isLocalTarget reports whether a valid gRPC target is a Unix socket or on loopback.
func isLocalTarget(target string) bool {
	scheme, rest, found := strings.Cut(target, "://")
	address := strings.TrimPrefix(target, "dns:")
	if found {
		_, address, _ = strings.Cut(rest, "/") // rest begins with an authority, as in target
	}
	for part := range strings.SplitSeq(address, ",") { // of a static list
		if host, _, _ := net.SplitHostPort(part); scheme != "unix" && !IsLoopback(host) {
			return false
		}
	}
	return true
}

// Redis is the connection to the Redis that gateways share.
type Redis struct {
	Mode             RedisMode `yaml:"mode" doc:"Kind of servers; auto: a server at one address, a cluster at several."`
	Addresses        []string  `yaml:"addresses" doc:"host:port of the server, of cluster nodes, or of sentinels; up to 100."`
	MasterName       string    `yaml:"master_name" doc:"Name of the server at the sentinels; only for mode: sentinel."`
	Username         string    `yaml:"username" restart:"-" doc:"User of the server; empty for the default user."`
	Password         Secret    `yaml:"password" restart:"-" doc:"As ${NAME} of a variable or ${file:PATH}; empty for none."`
	SentinelUsername string    `yaml:"sentinel_username" doc:"User of the sentinels; only for mode: sentinel."`
	SentinelPassword Secret    `yaml:"sentinel_password" doc:"As password; only for mode: sentinel."`
	Database         int       `yaml:"database" min:"0" max:"1000" doc:"Number of the database; 0 for a cluster."`
	TLS              ClientTLS `yaml:"tls" doc:"TLS to Redis."`
	KeyPrefix        string    `yaml:"key_prefix" chars:"64" doc:"Prefix of keys; visible ASCII without braces. Gateways with the same one share the counts."`
	Timeout          Duration  `yaml:"timeout" min:"1ms" max:"5s" doc:"Time for Redis to respond; twice that to connect."`
}

// A RedisMode is the kind of servers at the addresses of a Redis.
type RedisMode string

// Values of RedisMode.
const (
	RedisAuto     RedisMode = "auto" // a single server at one address, a cluster at several
	RedisSingle   RedisMode = "single"
	RedisCluster  RedisMode = "cluster"
	RedisSentinel RedisMode = "sentinel"
)

func (RedisMode) choices() []string {
	return []string{string(RedisAuto), string(RedisSingle), string(RedisCluster), string(RedisSentinel)}
}

// DialTimeout is the time to connect to Redis, TLS included.
func (r Redis) DialTimeout() time.Duration { return 2 * time.Duration(r.Timeout) }

const (
	maxRedisAddresses = 100
	redisKey          = "rate_limit.redis"
)

// keyPrefix has no braces, which mark the hash tag of a key in a cluster.
var keyPrefix = regexp.MustCompile(`^[\x21-\x7a|~]*$`)

// redis checks the keys of Redis even if the store is memory, so that a mistake is found before the
// store is changed.
func (v *validator) redis() {
	c := v.loaded.RateLimit.Redis
	if n := len(c.Addresses); n < 1 || n > maxRedisAddresses {
		v.refuse(redisKey+".addresses", "has %d addresses; 1 to %d are allowed", n, maxRedisAddresses)
	}
	for i, address := range c.Addresses {
		v.hostPort(fmt.Sprintf("%s.addresses[%d]", redisKey, i), address)
	}
	v.redisMode()
	if !keyPrefix.MatchString(c.KeyPrefix) {
		v.refuse(redisKey+".key_prefix", "must be visible ASCII without braces, not %q", c.KeyPrefix)
	}
	v.clientTLS(redisKey+".tls", c.TLS)
}

// redisMode checks the keys that depend on the mode.
func (v *validator) redisMode() {
	c := v.loaded.RateLimit.Redis
	sentinel := c.Mode == RedisSentinel
	if sentinel && c.MasterName == "" {
		v.refuse(redisKey+".master_name", "is required with mode: sentinel")
	}
	for _, other := range []struct{ key, value string }{
		{"master_name", c.MasterName}, {"sentinel_username", c.SentinelUsername},
		{"sentinel_password", c.SentinelPassword.Reveal()},
	} {
		if !sentinel && other.value != "" {
			v.refuse(redisKey+"."+other.key, "requires mode: sentinel, not %s", c.Mode)
		}
	}
	several := len(c.Addresses) > 1
	if c.Mode == RedisSingle && several {
		v.refuse(redisKey+".addresses", "has %d addresses; mode: single takes one", len(c.Addresses))
	}
	if c.Database != 0 && (c.Mode == RedisCluster || c.Mode == RedisAuto && several) {
		v.refuse(redisKey+".database", "must be 0 in a cluster, not %d", c.Database)
	}
}
