package config

import (
	"fmt"
	"regexp"
	"time"
)

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
	KeyPrefix        string    `yaml:"key_prefix" chars:"64" doc:"Prefix of keys; visible ASCII without braces."`
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
