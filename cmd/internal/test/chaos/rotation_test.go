package chaos

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"opsgate/backendclient/testkit"
	"opsgate/ratelimit/redisstore/redistest"
)

// rotation has the secrets of gateways that a test rotates, in files.
type rotation struct {
	token, password string // files of the admin token and of the password of Redis
}

const (
	redisUser     = "gate"
	firstPassword = "first-password"
	firstToken    = "the first token of operators"

	credentialsChanged = "the credentials of Redis changed: new connections use them"
)

func newRotation(t *testing.T) *rotation {
	t.Helper()
	dir := t.TempDir()
	s := &rotation{token: filepath.Join(dir, "admin-token"), password: filepath.Join(dir, "redis-password")}
	put(t, s.token, []byte(firstToken+"\n"))
	put(t, s.password, []byte(firstPassword+"\n"))
	return s
}

// startRedis runs a Redis with the user of the gateways.
func (s *rotation) startRedis(t *testing.T) *redistest.Server {
	t.Helper()
	return redistest.Start(t, "--user", redisUser, "on", ">"+firstPassword, "~opsgate:*", "&opsgate:*", "+@all")
}

// config is the configuration of limits in Redis with the user and the password. Its time-out is long, so that only a rotation can cause an
// outage.
func (s *rotation) config(server *redistest.Server, more string) string {
	withUser := fmt.Sprintf("redis: {username: %s, password: \"${file:%s}\", ", redisUser, s.password)
	return strings.Replace(inRedisWithin(server, 2*time.Second, more), "redis: {", withUser, 1)
}

// requireToken makes gateways require the admin token by a reload.
func (s *rotation) requireToken(t *testing.T, gateways []*gateway, config string) {
	t.Helper()
	const without = "admin: {listen: "
	for _, g := range gateways {
		g.base = strings.Replace(g.base, without, fmt.Sprintf("admin: {token: \"${file:%s}\", listen: ", s.token), 1)
		g.tokenFile = s.token
		g.configure(t, config)
	}
	within(t, "until the admin token was required", testkit.Eventually(t, "the admin token is required", func() bool {
		return all(gateways, func(g *gateway) bool {
			return access(t, g, "") == http.StatusUnauthorized && access(t, g, firstToken) == http.StatusOK
		})
	}), time.Second)
}

// rotateToken replaces the admin token.
func (s *rotation) rotateToken(t *testing.T, gateways []*gateway, next string) {
	t.Helper()
	previous := secretIn(t, s.token)
	put(t, s.token, []byte(next+"\n"))
	within(t, "until the next admin token was accepted and the previous one refused", testkit.Eventually(t, "the admin token changes", func() bool {
		return all(gateways, func(g *gateway) bool {
			return access(t, g, previous) == http.StatusUnauthorized && access(t, g, next) == http.StatusOK
		})
	}), time.Second)
}

// rotatePassword replaces the password of Redis by the steps of docs/operate/operations.md, and closes the connections that used the
// previous one.
func (s *rotation) rotatePassword(t *testing.T, server *redistest.Server, gateways []*gateway, next string) {
	t.Helper()
	previous := secretIn(t, s.password)
	acl(t, server, "SETUSER", redisUser, ">"+next)
	s.writePassword(t, gateways, next)
	acl(t, server, "SETUSER", redisUser, "<"+previous)
	expectNone(t, "outages of Redis while both passwords were valid", sum(t, gateways, "opsgate_rate_limit_store_outages_total"))
	disconnect(t, server)
	s.decidesInRedis(t, gateways)
}

// rotatePasswordOfRedisFirst replaces the password in Redis, where all connections end, and then in the file.
func (s *rotation) rotatePasswordOfRedisFirst(t *testing.T, server *redistest.Server, gateways []*gateway, next string) {
	t.Helper()
	acl(t, server, "SETUSER", redisUser, "resetpass", ">"+next)
	disconnect(t, server)
	testkit.Eventually(t, "both gateways begin an outage", local(t, gateways))
	put(t, s.password, []byte(next+"\n"))
	within(t, "until both used Redis, after the password changed in Redis and then in the file",
		testkit.Eventually(t, "both gateways use Redis", counted(t, gateways)), time.Second)
	s.decidesInRedis(t, gateways)
}

// rotatePasswordOfFileFirst replaces the password in the file, and then in Redis, after all connections have ended.
func (s *rotation) rotatePasswordOfFileFirst(t *testing.T, server *redistest.Server, gateways []*gateway, next string) {
	t.Helper()
	s.writePassword(t, gateways, next)
	disconnect(t, server)
	testkit.Eventually(t, "both gateways begin an outage", local(t, gateways))
	acl(t, server, "SETUSER", redisUser, "resetpass", ">"+next)
	within(t, "until both used Redis, after the password changed in the file and then in Redis",
		testkit.Eventually(t, "both gateways use Redis", counted(t, gateways)), time.Second)
	s.decidesInRedis(t, gateways)
}

// writePassword replaces the password in the file, and waits until new connections of the gateways use it.
func (s *rotation) writePassword(t *testing.T, gateways []*gateway, next string) {
	t.Helper()
	reloaded := newLines(gateways, credentialsChanged)
	put(t, s.password, []byte(next+"\n"))
	within(t, "until new connections to Redis used the password", testkit.Eventually(t, "the password is reloaded", reloaded), time.Second)
}

// rotateUser replaces the user of Redis, and deletes the previous one, which closes its connections. It returns the configuration.
func (s *rotation) rotateUser(t *testing.T, server *redistest.Server, gateways []*gateway, config, next string) string {
	t.Helper()
	acl(t, server, "SETUSER", next, "on", ">"+secretIn(t, s.password), "~opsgate:*", "&opsgate:*", "+@all")
	reloaded := newLines(gateways, credentialsChanged)
	config = strings.Replace(config, "username: "+redisUser, "username: "+next, 1)
	for _, g := range gateways {
		g.configure(t, config)
	}
	within(t, "until new connections to Redis used the user", testkit.Eventually(t, "the user is reloaded", reloaded), time.Second)
	acl(t, server, "DELUSER", redisUser)
	s.decidesInRedis(t, gateways)
	return config
}

// decidesInRedis waits until each gateway has decided requests in Redis.
func (s *rotation) decidesInRedis(t *testing.T, gateways []*gateway) {
	t.Helper()
	for _, g := range gateways {
		calls := func() float64 {
			return g.metric(t, `opsgate_rate_limit_redis_call_duration_seconds_count{operation="decide",outcome="ok"}`)
		}
		before := calls()
		testkit.Eventually(t, "Redis decides", func() bool { return calls() >= before+20 })
	}
}

// moveServices changes the address of all services.
func moveServices(t *testing.T, gateways []*gateway, config, from, to string) {
	t.Helper()
	reloaded := newLines(gateways, "configuration reloaded")
	for _, g := range gateways {
		g.base = strings.ReplaceAll(g.base, fmt.Sprintf("%q", from), fmt.Sprintf("%q", to))
		g.configure(t, config)
	}
	within(t, "until another address of all services was in force", testkit.Eventually(t, "the address is in force", reloaded), time.Second)
}

// Everything that an operator rotates is rotated under load, in each order: no request fails, and later reloads work.
func TestSecretsAndAddressesChangeUnderLoad(t *testing.T) {
	skipIfShort(t)
	parallel(t)
	s := newRotation(t)
	server, previous := s.startRedis(t), startBackend(t)
	next := startBackendAt(t, "127.0.0.1:0", previous.data)
	config := s.config(server, "  limits: [{requests: 1000000, per: 1s}]\n")
	gateways := startPair(t, "opsgate", everyService(previous.address), config)
	end := load{gateways: gateways, tokens: texts(t, "full", "read"), rate: 100, clients: 16}.start(t)
	s.requireToken(t, gateways, config)
	s.rotateToken(t, gateways, "the second token of operators")
	s.rotatePassword(t, server, gateways, "second-password")
	s.rotatePasswordOfRedisFirst(t, server, gateways, "third-password")
	s.rotatePasswordOfFileFirst(t, server, gateways, "fourth-password")
	config = s.rotateUser(t, server, gateways, config, "another-gate")
	moveServices(t, gateways, config, previous.address, next.address)
	previous.End(t)
	s.rotateToken(t, gateways, "the third token of operators")
	reloaded := newLines(gateways, "configuration reloaded")
	for _, g := range gateways {
		g.configure(t, strings.Replace(config, "1000000", "999999", 1))
	}
	within(t, "until a limit that changed later was in force", testkit.Eventually(t, "the limit is in force", reloaded), time.Second)
	sleep(t, time.Second/2)
	changed := time.Now()
	sleep(t, time.Second/2)
	answers := end()
	noneFailed(t, answers)
	expectNone(t, "responses with the previous limit afterwards", len(answers.between(changed, time.Now()).filter(func(a response) bool {
		return a.policy != `"second";q=999999;w=1`
	})))
	for _, g := range gateways {
		if secret := regexp.MustCompile(`(?:first|second|third|fourth)-password|the \w+ token of operators`).FindString(g.Log.String()); secret != "" {
			t.Errorf("the log has %q", secret)
		}
	}
}

// newLines returns a function that reports whether each gateway has logged another line with the message.
func newLines(gateways []*gateway, message string) func() bool {
	count := func(g *gateway) int { return strings.Count(g.Log.String(), fmt.Sprintf(`"msg":%q`, message)) }
	before := make(map[*gateway]int, len(gateways))
	for _, g := range gateways {
		before[g] = count(g)
	}
	return func() bool { return all(gateways, func(g *gateway) bool { return count(g) > before[g] }) }
}

func all(gateways []*gateway, holds func(*gateway) bool) bool {
	return !slices.ContainsFunc(gateways, func(g *gateway) bool { return !holds(g) })
}

// access returns the status of an admin path for an admin token, "" for none.
func access(t *testing.T, g *gateway, token string) int {
	t.Helper()
	return fetch(t.Context(), http.DefaultClient, g.admin+"/admin/config", token).status
}

func secretIn(t testing.TB, file string) string {
	t.Helper()
	content, err := os.ReadFile(file)
	testkit.Must(t, err)
	return strings.TrimSpace(string(content))
}

func acl(t *testing.T, server *redistest.Server, command ...any) {
	t.Helper()
	testkit.Must(t, server.Client().Do(t.Context(), append([]any{"ACL"}, command...)...).Err())
}

// disconnect closes the connections of the gateways to Redis.
func disconnect(t *testing.T, server *redistest.Server) {
	t.Helper()
	testkit.Must(t, server.Client().Do(t.Context(), "CLIENT", "KILL", "USER", redisUser).Err())
}
