package config

import (
	"fmt"
	"regexp"
)

const (
	maxRedisAddresses = 100
	redisKey          = "rate_limit.redis"
)

// keyPrefix has no braces, which mark the hash tag of a key in a cluster.
var keyPrefix = regexp.MustCompile(`^[\x21-\x7a|~]*$`)

// redis checks the keys of Redis also if another store is in use, so that a mistake is found before a change of the store.
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
		{"master_name", c.MasterName}, {"sentinel_username", c.SentinelUsername}, {"sentinel_password", c.SentinelPassword.Reveal()},
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
