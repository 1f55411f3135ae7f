package config

import (
	"net"
	"strings"
)

// plaintext warns of connections without TLS over a network: to internal services, which determine the responses and the valid tokens,
// and with the password of Redis.
func (w *warner) plaintext() {
	for name, upstream := range w.loaded.Upstreams.all() {
		if upstream.TLS.Enabled || isLocalTarget(upstream.Address) {
			continue
		}
		consequence := "read and change calls and answers"
		if name == "identity" {
			consequence = "have any token accepted"
		}
		w.warn("upstreams."+name+".address", "is %s, not on loopback, and upstreams.%s.tls.enabled is false: an attacker on the network can %s",
			upstream.Address, name, consequence)
	}
	r := w.loaded.RateLimit.Redis
	if w.loaded.RateLimit.Store != StoreRedis || r.TLS.Enabled {
		return
	}
	for _, address := range r.Addresses {
		if host, _, _ := net.SplitHostPort(address); isLoopback(host) {
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

// isLocalTarget returns whether a gRPC target, which the validator has accepted, is a socket of this machine or on loopback.
func isLocalTarget(target string) bool {
	scheme, rest, found := strings.Cut(target, "://")
	address := strings.TrimPrefix(target, "dns:")
	if found {
		_, address, _ = strings.Cut(rest, "/") // after the authority, for dns a name server
	}
	for part := range strings.SplitSeq(address, ",") { // of a static list
		if host, _, _ := net.SplitHostPort(part); scheme != "unix" && !isLoopback(host) {
			return false
		}
	}
	return true
}
