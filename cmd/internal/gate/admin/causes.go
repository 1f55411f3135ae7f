package admin

import (
	"strings"

	"google.golang.org/grpc/codes"
)

const (
	causeACL   = "the ACL of Redis denies the user a command or key of the gateway"
	actionACL  = "give the user the rules of docs/operate/limits.md with ACL SETUSER"
	masterOnly = "set rate_limit.redis.addresses to the master, or use mode: sentinel"
	dropped    = "run redis-cli --latency and redis-cli slowlog get; else see whether the network drops packets"
	findRedis  = "run redis-cli ping from this machine; then read the log of Redis"
)

// redisCauses has why Redis is not in use, and the first thing to do, by the prefix of its error
// reply. Without a reply, the reason is a network error. The runbook "Redis is unavailable" has the
// same reasons and actions.
var redisCauses = []struct{ prefix, reason, action string }{
	{"OOM ", "Redis is out of memory (maxmemory)", "raise maxmemory to 500 bytes for each token in use; keep noeviction"},
	{"NOAUTH ", "Redis requires a password, and none is configured",
		"write the password to the file of rate_limit.redis.password"},
	{"WRONGPASS ", "Redis refuses the user or the password",
		"correct rate_limit.redis.username, or the file of its password"},
	{"ERR AUTH ", "Redis has no password, and one is configured",
		"remove rate_limit.redis.password, or set requirepass in Redis"},
	{"NOPERM ", causeACL, actionACL},
	{"ERR ACL failure in script", causeACL, actionACL},
	{"ERR The user executing the script can't", causeACL, actionACL}, // before Redis 7.2
	{"WRONGTYPE ", "a key of the gateway has a value of another program", "set another rate_limit.redis.key_prefix"},
	{"READONLY ", "Redis is a read-only replica", masterOnly},
	{"LOADING ", "Redis is loading its data", "wait; without its data, tokens get at most their limits once more"},
	{"MISCONF ", "Redis refuses writes because it cannot save its data",
		"free the disk of Redis; else set stop-writes-on-bgsave-error no"},
	{"NOREPLICAS ", "Redis refuses writes because it has too few replicas",
		"start replicas, or lower min-replicas-to-write"},
	{"MASTERDOWN ", "Redis is a replica that lost its master", masterOnly},
	{"CLUSTERDOWN ", "the Redis cluster is down", "run redis-cli cluster nodes, and start the masters that are down"},
	{"BUSY ", "Redis is busy with a script", "run redis-cli script kill, and find which program runs the script"},
	{"ERR max number of clients reached", "Redis has too many clients (maxclients)",
		"raise maxclients, or close some of CLIENT LIST"},
	{"", "connection refused", "start Redis, or set rate_limit.redis.addresses to where it listens"},
	{"", "i/o timeout", dropped},
	{"", "deadline exceeded", dropped},
}

// redisCause returns the reason of a failed call to Redis, "" if it is unknown, and the action.
func redisCause(cause string) (reason, action string) {
	network := sanitizeCause(cause)
	for _, known := range redisCauses {
		if known.prefix == "" && network == known.reason ||
			known.prefix != "" && (strings.HasPrefix(cause, known.prefix) || strings.Contains(cause, ": "+known.prefix)) {
			return known.reason, known.action
		}
	}
	return network, findRedis
}

// sanitizeCause reduces the cause of a failed call to its gRPC code and a known network error.
// Other text of the cause is removed.
func sanitizeCause(cause string) string {
	var parts []string
	code, _, _ := strings.Cut(cause, ":")
	for c := codes.Canceled; c <= codes.Unauthenticated; c++ {
		if c.String() == code {
			parts = append(parts, code)
		}
	}
	for _, known := range []string{
		"connection refused", "connection reset", "no such host", "no route to host", "network is unreachable", "broken pipe",
		"i/o timeout", "deadline exceeded", "failed to verify certificate", "handshake failed", "unexpected EOF",
	} {
		if strings.Contains(cause, known) {
			return strings.Join(append(parts, known), ": ")
		}
	}
	return strings.Join(parts, ": ")
}
