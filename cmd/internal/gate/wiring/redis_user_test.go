package wiring_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"opsgate/internal/testkit"
	"opsgate/ratelimit/redisstore/redistest"
)

// pinged matches a subscription of at least two seconds, in CLIENT LIST. A gateway pings after half
// a second.
var pinged = regexp.MustCompile(` age=([2-9]|\d\d+) .* sub=1 .* cmd=ping user=opsgate `)

// The rule of docs/operate/limits.md is all that a gateway needs.
func TestUserOfRedisNeedsTheDocumentedRule(t *testing.T) {
	text, err := os.ReadFile(filepath.FromSlash("../../../../docs/operate/limits.md"))
	testkit.Must(t, err)
	found := regexp.MustCompile(`(?s)ACL SETUSER opsgate on >PASSWORD (.*?)\n\n`).FindSubmatch(text)
	if found == nil {
		t.Fatal("no rule in docs/operate/limits.md")
	}
	server := redistest.Start(t, append([]string{
		"--maxmemory", "1gb", "--maxmemory-policy", "allkeys-lru", "--user", "opsgate", "on", ">PASSWORD",
	}, strings.Fields(string(found[1]))...)...)
	secret := filepath.Join(t.TempDir(), "redis")
	testkit.Must(t, os.WriteFile(secret, []byte("PASSWORD"), 0o600))
	r := start(t, fmt.Sprintf("rate_limit:\n  store: redis\n  limits: [{requests: 1000000, per: 1m}]\n"+
		"  redis: {addresses: [%q], timeout: 5s, username: opsgate, password: \"${file:%s}\"}\n", server.Addr(), secret))
	testkit.Eventually(t, "the first heartbeat is sent", func() bool { return server.Client().Exists(t.Context(), "opsgate:replicas").Val() == 1 })
	var subscriptions string
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("subscriptions: %s", subscriptions)
		}
	})
	testkit.Eventually(t, "a subscription lasts longer than the interval of pings, and was pinged", func() bool {
		subscriptions = server.Client().Do(t.Context(), "CLIENT", "LIST", "TYPE", "PUBSUB").String()
		return pinged.MatchString(subscriptions)
	})
	if got := r.get(t, r.Address(), "/v1/servers"); got.status != 200 || r.store(t).Mode != "shared" {
		t.Errorf("got %+v, %+v", got, r.store(t))
	}
	if n := r.store(t).EvictingServers; n != 1 {
		t.Errorf("%d servers evict keys", n)
	}
	r.finish(t)
	if n := server.Client().Exists(t.Context(), "opsgate:replicas").Val(); n != 0 {
		t.Error("it did not remove itself")
	}
	if denied := fmt.Sprint(server.Client().Do(t.Context(), "ACL", "LOG").Val()); denied != "[]" {
		t.Errorf("Redis denied %s", denied)
	}
}
