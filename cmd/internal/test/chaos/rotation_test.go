package chaos

import (
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"opsgate/internal/testkit"
	"opsgate/ratelimit/redisstore/redistest"
)

// A rotation replaces what operators rotate: the password of Redis, which is in a file, its user,
// and the address of all services.
type rotation struct {
	*system

	password string   // file
	bounded  []string // names of the phases that are reached within a second
}

const (
	redisUser     = "gate"
	firstPassword = "first-password"

	credentialsChanged = "the credentials of Redis changed: new connections use them"
)

func newRotation(t *testing.T) *rotation {
	t.Helper()
	r := &rotation{password: filepath.Join(t.TempDir(), "redis-password")}
	put(t, r.password, []byte(firstPassword+"\n"))
	redis := redistest.Start(t, "--user", redisUser, "on", ">"+firstPassword, "~opsgate:*", "&opsgate:*", "+@all")
	// The time-out is long, so that only a rotation can cause an outage.
	withUser := fmt.Sprintf("redis: {username: %s, password: \"${file:%s}\", ", redisUser, r.password)
	r.system = newSystem(t, redis, strings.Replace(inRedisWithin(redis, 2*time.Second, perSecond(1_000_000)), "redis: {", withUser, 1))
	return r
}

// Everything that an operator rotates is rotated under load, in each order: no request fails, and
// later reloads work. The steps for the password are those of docs/operate/operations.md.
func TestSecretsAndAddressesChangeUnderLoad(t *testing.T) {
	skipIfShort(t)
	parallel(t)
	r := newRotation(t)
	previous := startBackend(t)
	next := startBackendAt(t, "127.0.0.1:0", previous.data)
	r.move(shared.address, previous.address)
	r.try(t, row{
		load:   func() load { return load{tokens: texts(r.T, "full", "read"), rate: 100, clients: 16} },
		phases: r.phases(previous, next),
		check:  r.check,
	})
}

// phases rotates everything, and moves all services from one backend to the next.
func (r *rotation) phases(previous, next *backend) []phase {
	return []phase{
		r.reloads("new connections to Redis use the password", credentialsChanged, func() {
			r.acl("SETUSER", redisUser, ">second-password")
			put(r.T, r.password, []byte("second-password\n"))
		}),
		r.decides("Redis decides without the previous password", func() {
			r.acl("SETUSER", redisUser, "<"+firstPassword)
			expectNone(r.T, "outages of Redis while both passwords were valid", r.sum("opsgate_rate_limit_store_outages_total"))
			r.disconnect()
		}),
		{"both gateways begin an outage, as the password changed in Redis first", func() {
			r.acl("SETUSER", redisUser, "resetpass", ">third-password")
			r.disconnect()
		}, r.local, 0},
		r.soon(phase{"both used Redis, after the password changed in Redis and then in the file", func() {
			put(r.T, r.password, []byte("third-password\n"))
		}, r.counted, 0}),
		r.decides("Redis decides with the third password", func() {}),
		r.reloads("new connections to Redis use the password of the file", credentialsChanged, func() {
			put(r.T, r.password, []byte("fourth-password\n"))
		}),
		{"both gateways begin an outage, as the password changed in the file first", r.disconnect, r.local, 0},
		r.soon(phase{"both used Redis, after the password changed in the file and then in Redis", func() {
			r.acl("SETUSER", redisUser, "resetpass", ">fourth-password")
		}, r.counted, 0}),
		r.decides("Redis decides with the fourth password", func() {}),
		r.reloads("new connections to Redis use the user", credentialsChanged, func() {
			r.acl("SETUSER", "another-gate", "on", ">fourth-password", "~opsgate:*", "&opsgate:*", "+@all")
			r.configure("username: "+redisUser, "username: another-gate")
		}),
		r.decides("Redis decides without the previous user", func() { r.acl("DELUSER", redisUser) }),
		r.reloads("another address of all services is in force", "configuration reloaded", func() {
			r.move(previous.address, next.address)
			r.configure("", "")
		}),
		{name: "the previous backend ends", begin: func() { previous.End(r.T) }},
		r.reloads("a limit that changed later is in force", "configuration reloaded", func() { r.configure("1000000", "999999") }),
		{name: "responses to earlier requests arrive", lasts: time.Second / 2},
		{name: "afterwards", lasts: time.Second / 2},
	}
}

// soon returns a phase that is to be reached within a second.
func (r *rotation) soon(p phase) phase {
	r.bounded = append(r.bounded, p.name)
	return p
}

// reloads is a phase that ends when each gateway has logged another line with the message.
func (r *rotation) reloads(name, message string, change func()) phase {
	begin, grown := r.counts(1, func(g *gateway) int { return strings.Count(g.Log.String(), fmt.Sprintf(`"msg":%q`, message)) })
	return r.soon(phase{name, func() { begin(); change() }, grown, 0})
}

// decides is a phase that ends when each gateway has decided requests in Redis after the change.
func (r *rotation) decides(name string, change func()) phase {
	begin, grown := r.counts(20, func(g *gateway) int {
		return int(g.metric(r.T, `opsgate_rate_limit_redis_call_duration_seconds_count{operation="decide",outcome="ok"}`))
	})
	return phase{name, func() { change(); begin() }, grown, 0}
}

// counts returns functions that begin to count at each gateway, and report whether each count has
// grown since.
func (r *rotation) counts(by int, count func(*gateway) int) (begin func(), grown func() bool) {
	before := map[*gateway]int{}
	begin = func() {
		for _, g := range r.gateways {
			before[g] = count(g)
		}
	}
	return begin, func() bool { return all(r.gateways, func(g *gateway) bool { return count(g) >= before[g]+by }) }
}

// configure replaces a part of the configuration.
func (r *rotation) configure(from, to string) {
	r.used = strings.Replace(r.used, from, to, 1)
	configure(r.T, r.gateways, r.used, false)
}

// move changes the address of all services in later configurations.
func (r *rotation) move(from, to string) {
	for _, g := range r.gateways {
		g.base = strings.ReplaceAll(g.base, fmt.Sprintf("%q", from), fmt.Sprintf("%q", to))
	}
}

func (r *rotation) acl(command ...any) {
	r.Helper()
	testkit.Must(r.T, r.redis.Client().Do(r.Context(), append([]any{"ACL"}, command...)...).Err())
}

// disconnect closes the connections of the gateways to Redis.
func (r *rotation) disconnect() {
	r.Helper()
	testkit.Must(r.T, r.redis.Client().Do(r.Context(), "CLIENT", "KILL", "USER", redisUser).Err())
}

// check checks the times, that the last limit is in force, and that no secret is in a log.
func (r *rotation) check(result *trial) {
	r.Helper()
	for _, name := range r.bounded {
		within(r.T, "until "+name, result.took(name), time.Second)
	}
	expectNone(r.T, "responses with the previous limit afterwards", len(result.in("afterwards").filter(func(a response) bool {
		return a.policy != `"second";q=999999;w=1`
	})))
	for _, g := range r.gateways {
		if secret := regexp.MustCompile(`(?:first|second|third|fourth)-password`).FindString(g.Log.String()); secret != "" {
			r.Errorf("the log has %q", secret)
		}
	}
}

func all(gateways []*gateway, holds func(*gateway) bool) bool {
	return !slices.ContainsFunc(gateways, func(g *gateway) bool { return !holds(g) })
}
