package status

import (
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/connectivity"

	"opsgate/backendclient"
)

func TestExplainKnowsWhichCallsFailAtOnce(t *testing.T) {
	for _, c := range []struct {
		connection connectivity.State
		refused    bool // by the breaker
		fails      bool
	}{
		{connectivity.Ready, true, true},
		{connectivity.Ready, false, false},
		{connectivity.Connecting, false, false}, // the call waits
		{connectivity.TransientFailure, false, true},
	} {
		if err := serviceErr("fleet", c.connection, c.refused); (err != nil) != c.fails {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

func TestOpenBreakerSaysWhichCallsItRefuses(t *testing.T) {
	for team, want := range map[string]string{"": "no calls of teams whose last one failed for 0s", "harbour": "no calls of one team for 0s"} {
		now := time.Now()
		b := backendclient.BreakerStatus{State: backendclient.BreakerOpen, Team: team, Since: now, HalfOpenAt: now}
		if d := serviceState(connectivity.Ready, b, now); !strings.HasPrefix(d.Reason, want) {
			t.Errorf("team %q: %q", team, d.Reason)
		}
	}
}

// The causes are error replies of Redis 7, wrapped as the library returns them.
func TestReasonsOfRedisErrors(t *testing.T) {
	for cause, want := range map[string]string{
		"": "",
		"deciding by redis: OOM command not allowed when used memory > 'maxmemory'. script: 3f55, on @user_script:1.": "Redis is out of memory (maxmemory)",
		"asking redis: NOAUTH Authentication required.":                                                               "Redis requires a password, and none is configured",
		"asking redis: WRONGPASS invalid username-password pair or user is disabled.":                                 "Redis refuses the user or the password",
		"asking redis: ERR AUTH <password> called without any password configured for the default user.":              "Redis has no password, and one is configured",
		"asking redis: NOPERM this user has no permissions to run the 'evalsha' command":                              "the ACL of Redis denies the user a command or key of the gateway",
		"asking redis: READONLY You can't write against a read only replica.":                                         "Redis is a read-only replica",
		"asking redis: LOADING Redis is loading the dataset in memory":                                                "Redis is loading its data",
		"MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk.":            "Redis refuses writes because it cannot save its data",
		"asking redis: CLUSTERDOWN Hash slot not served":                                                              "the Redis cluster is down",
		"asking redis: dial tcp 10.1.2.3:6379: connect: connection refused":                                           "connection refused",
		"asking redis: context deadline exceeded":                                                                     "deadline exceeded",
		"asking redis: ERR something with a secret in it":                                                             "",
	} {
		if got := redisCause(cause); got != want {
			t.Errorf("%s: got %q", cause, got)
		}
	}
}
