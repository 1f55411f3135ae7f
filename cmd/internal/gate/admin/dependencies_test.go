package admin

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/connectivity"

	"opsgate/backendclient/breaker"
	"opsgate/internal/testkit"
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
	for team, want := range map[string]string{
		"": "breaker open for 40s, for GetServer, next probe in 2s: Unavailable", "harbour": "breaker open for 40s, for GetServer, for one team, next probe in 2s: Unavailable",
	} {
		b := breaker.Status{
			State: "open", Team: team, Methods: []string{"GetServer"}, TrippedAt: noon.Add(-40 * time.Second), HalfOpenAt: noon.Add(2 * time.Second), Cause: "Unavailable: secret",
		}
		if d := newService("fleet", connectivity.Ready, b, "", noon); d.OK || d.Reason != want {
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
		if got, _ := redisCause(cause); got != want {
			t.Errorf("%s: got %q", cause, got)
		}
	}
}

func TestFlappingOverloadIsLoggedOnce(t *testing.T) {
	var log testkit.Buffer
	logger, refused := slog.New(slog.NewTextHandler(&log, nil)), uint64(5)
	l := &monitoredCapacity{
		Capacity: Capacity{Name: "capacity", Resource: "requests in flight", Stats: func() (int, int, uint64) { return 7, 8, refused }},
		refused:  5,
	}
	now := noon
	check := func(after time.Duration, more uint64) {
		now, refused = now.Add(after), refused+more
		l.check(logger, now)
	}
	check(time.Second, 0)
	if d := l.dependency(now); !d.OK || d.Reason != "" {
		t.Errorf("before the overload: %+v", d)
	}
	check(time.Second, 3)
	check(recoveryPeriod-time.Second, 0)
	check(time.Second/2, 2)
	if d := l.dependency(now); d.OK || d.State != "overloaded" || d.Reason != "more than 8 requests in flight for 10s; 7 now" {
		t.Errorf("during the overload: %+v", d)
	}
	if n := strings.Count(log.String(), "\n"); n != 1 || !strings.Contains(log.String(), `resource="requests in flight" limit=8`) {
		t.Errorf("%d lines: %s", n, &log)
	}
	check(recoveryPeriod, 0)
	check(recoveryPeriod, 0)
	if n := strings.Count(log.String(), "\n"); n != 2 || !strings.Contains(log.String(), "refused=5 lasted=10s") {
		t.Errorf("%d lines: %s", n, &log)
	}
	if d := l.dependency(now); !d.OK {
		t.Errorf("after the overload: %+v", d)
	}
}

func TestUnknownTextOfACauseIsRemoved(t *testing.T) {
	for cause, want := range map[string]string{
		"": "",
		`Unavailable: connection error: desc = "transport: dial tcp 10.0.0.5:9000: connect: connection refused"`: "Unavailable: connection refused",
		"Internal: pq: password authentication failed for user admin":                                            "Internal",
		"dial tcp 10.0.0.6:6379: i/o timeout":                                                                    "i/o timeout",
		"hunter2":                                                                                                "",
	} {
		if got := sanitizeCause(cause); got != want {
			t.Errorf("%q: got %q, want %q", cause, got, want)
		}
	}
}
