package config

import (
	"maps"
	"slices"
	"strings"

	"github.com/invopop/jsonschema"
)

// removed maps removed keys to the behavior that replaces them. They are accepted with a warning until the next major version.
var removed = map[string]string{
	"authn.negative_for":              "a rejected token is rejected for 5s without a new look-up",
	"authn.unwatched_for":             "it is a third of authn.fresh_for",
	"http.http2":                      "an HTTP/2 connection has up to 100 requests at once",
	"rate_limit.redis.dial_timeout":   "it is twice rate_limit.redis.timeout",
	"rate_limit.redis.pool_size":      "a gateway has up to 32 connections to each Redis server",
	"rate_limit.redis.probe_interval": "Redis is probed every 500ms during an outage",
	"upstream_calls.breaker.probes":   "three calls are made at a time after open_for, and must succeed in a row",
	"upstream_calls.breaker.window":   "it is 20s, or twice the longest timeout if that is longer",
	"upstream_calls.retries.backoff":  "a retry waits 12ms to 38ms; the wait doubles with each further retry",
	"upstream_calls.deadline_margin":  "a call ends 10ms before its request",
}

// removedReason returns what replaces the key of a variable, which can be under a removed mapping, or "" if the key was not removed.
func removedReason(name string) string {
	for key, reason := range removed {
		if removedName := variable(key); name == removedName || strings.HasPrefix(name, removedName+"_") {
			return reason
		}
	}
	return ""
}

// ignored is the warning for a removed key.
func ignored(at origin, key, reason string) Problem {
	return problem(at, key, "has no effect and will be removed in the next major version: %s", reason)
}

// addRemoved adds the removed keys to the schema of the file, which stays valid with them.
func addRemoved(schema *jsonschema.Schema) {
	for _, key := range slices.Sorted(maps.Keys(removed)) { // always in the same order
		path := strings.Split(key, ".")
		mapping, name := schema, path[len(path)-1]
		for _, parent := range path[:len(path)-1] {
			mapping = mapping.Properties.Value(parent)
		}
		mapping.Properties.Set(name, &jsonschema.Schema{Deprecated: true, Description: "Has no effect: " + removed[key] + "."})
	}
}
