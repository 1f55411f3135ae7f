package admin

import (
	"strings"

	"google.golang.org/grpc/codes"
)

const causeACL = "the ACL of Redis denies the user a command or key of the gateway"

// redisCauses maps the prefixes of error replies of Redis to reasons.
var redisCauses = []struct{ prefix, reason string }{
	{"OOM ", "Redis is out of memory (maxmemory)"},
	{"NOAUTH ", "Redis requires a password, and none is configured"},
	{"WRONGPASS ", "Redis refuses the user or the password"},
	{"ERR AUTH ", "Redis has no password, and one is configured"},
	{"NOPERM ", causeACL},
	{"ERR ACL failure in script", causeACL},
	{"ERR The user executing the script can't", causeACL}, // before Redis 7.2
	{"WRONGTYPE ", "a key of the gateway has a value of another program"},
	{"READONLY ", "Redis is a read-only replica"},
	{"LOADING ", "Redis is loading its data"},
	{"MISCONF ", "Redis refuses writes because it cannot save its data"},
	{"NOREPLICAS ", "Redis refuses writes because it has too few replicas"},
	{"MASTERDOWN ", "Redis is a replica that lost its master"},
	{"CLUSTERDOWN ", "the Redis cluster is down"},
	{"BUSY ", "Redis is busy with a script"},
	{"ERR max number of clients reached", "Redis has too many clients (maxclients)"},
}

// redisCause returns the reason of a failed call to Redis: by its error reply, or like sanitizeCause.
func redisCause(cause string) string {
	for _, known := range redisCauses {
		if strings.HasPrefix(cause, known.prefix) || strings.Contains(cause, ": "+known.prefix) {
			return known.reason
		}
	}
	return sanitizeCause(cause)
}

// sanitizeCause reduces the cause of a failed call to its gRPC code and a known network error. Other text of the cause is removed.
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
