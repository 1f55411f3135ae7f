package wiring_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"opsgate/backendclient/testkit"
	"opsgate/cmd/internal/test/servicestest"
	"opsgate/ratelimit/redisstore/redistest"
)

// inRedisAs is inRedis with a user and a file with the password.
func inRedisAs(address, user, file, more string) string {
	return fmt.Sprintf("rate_limit:\n  store: redis\n  redis: {addresses: [%q], timeout: 5s, username: %q, password: \"${file:%s}\"}\n"+
		"  limits: [{requests: 1000000, per: 1m}]\n%s", address, user, file, more)
}

// The password changes in three steps: Redis accepts both, the file changes, Redis rejects the old one. No request fails, even if connections
// are cut. Later reloads work too.
func TestRedisPasswordChangesUnderLoad(t *testing.T) {
	server := redistest.Start(t, "--user", "gate", "on", ">first-password", "~opsgate:*", "&opsgate:*", "+@all")
	secret := filepath.Join(t.TempDir(), "redis")
	write := func(password string) {
		t.Helper()
		testkit.Must(t, os.WriteFile(secret, []byte(password+"\n"), 0o600))
	}
	write("first-password")
	r := reloadingGateway(t, servicestest.Start(t), inRedisAs(server.Addr(), "gate", secret, ""))
	do := func(command ...any) {
		t.Helper()
		testkit.Must(t, server.Client().Do(t.Context(), command...).Err())
	}
	ctx, cancel := context.WithCancel(t.Context())
	var load sync.WaitGroup
	var local atomic.Int64
	for range 4 {
		load.Go(func() {
			for ctx.Err() == nil {
				r.mustGet(t, "/v1/servers", 200)
				if r.store(t).Mode != "shared" {
					local.Add(1)
				}
			}
		})
	}
	changed := func() int { return strings.Count(r.log.String(), "the credentials of Redis changed") }
	do("ACL", "SETUSER", "gate", ">second-password")
	write("second-password")
	began := time.Now()
	testkit.Eventually(t, "the password is reloaded", func() bool { return changed() == 1 })
	took := time.Since(began)
	t.Logf("active after %v", took.Round(time.Millisecond))
	if took > time.Second {
		t.Errorf("it took %v", took)
	}
	do("ACL", "SETUSER", "gate", "<first-password")
	if n := local.Load(); n > 0 {
		t.Errorf("Redis was not in use %d times", n)
	}
	do("CLIENT", "KILL", "USER", "gate") // new connections use the second password
	testkit.Eventually(t, "Redis is used with the second password", func() bool {
		_, state := r.redis(t)
		return state == "ready" && strings.Contains(server.Client().Do(t.Context(), "CLIENT", "LIST").String(), "user=gate")
	})

	// The user changes with the configuration file.
	do("ACL", "SETUSER", "other", "on", ">second-password", "~opsgate:*", "&opsgate:*", "+@all")
	testkit.Must(t, r.reload(t, inRedisAs(server.Addr(), "other", secret, "log: {level: debug}\n")))
	do("ACL", "DELUSER", "gate") // closes its connections
	testkit.Eventually(t, "connections use the other user", func() bool {
		list := server.Client().Do(t.Context(), "CLIENT", "LIST").String()
		_, state := r.redis(t)
		return state == "ready" && strings.Contains(list, "user=other") && !strings.Contains(list, "user=gate")
	})
	if n := changed(); n != 2 {
		t.Errorf("%d changes are logged", n)
	}
	cancel()
	load.Wait()
	if log := r.log.String(); strings.Contains(log, "first-password") || strings.Contains(log, "second-password") {
		t.Error("the log has a password")
	}
}
