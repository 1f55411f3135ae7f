package redisstore_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"opsgate/internal/testkit"
	"opsgate/ratelimit"
	"opsgate/ratelimit/ratelimittest"
	"opsgate/ratelimit/redisclient"
	"opsgate/ratelimit/redisstore"
	"opsgate/ratelimit/redisstore/redistest"
)

const (
	accountKey = "opsgate:account:3:t"
	discarded  = "opsgate_rate_limit_store_discarded_accounts_total"
)

func shadow(l ratelimit.Limit) ratelimit.Limit {
	l.Shadow = true
	return l
}

// mixed returns a policy with an exact limit, a larger one, and one in shadow.
func mixed(tb testing.TB) *ratelimit.Policy {
	tb.Helper()
	return ratelimittest.Policy(tb, limit("second", 3, time.Second), limit("hour", 5000, time.Hour), shadow(limit("tried", 100, time.Minute)))
}

// A request is decided with any bytes as the value of the token's key. Afterwards, the value is an
// account.
func FuzzAccount(f *testing.F) {
	server, c := redistest.Start(f), newClock()
	client := newClient(f, redisclient.Options{Addresses: []string{server.Addr()}})
	s, p := newStore(f, redisstore.Options{Client: client, Clock: c.Now}), mixed(f)
	for _, value := range []string{"", "x", "\x01\x02\x01", "\x03\x01", "\x03\x04", "\xff"} {
		f.Add([]byte(value))
	}
	for range 5 { // accounts, truncated, and with one byte changed
		decide(f, s, "t", p)
		c.Advance(700 * time.Millisecond)
		value, err := client.Get(f.Context(), accountKey).Bytes()
		testkit.Must(f, err)
		f.Add(value)
		f.Add(value[:len(value)-1])
		f.Add(append(bytes.Clone(value), 0))
		for at := range value {
			changed := bytes.Clone(value)
			changed[at] = 0xff
			f.Add(changed)
		}
	}
	f.Fuzz(func(t *testing.T, value []byte) {
		testkit.Must(t, client.Set(t.Context(), accountKey, value, 0).Err())
		if err := s.Refund(t.Context(), "t", ratelimit.Decision{Allowed: true, At: c.Now(), ShadowDeniedBy: -1}); err != nil {
			t.Error(err)
		}
		d, _, err := s.Exchange(t.Context(), "t", p, ratelimit.Exchange{Upload: value})
		if err != nil || d.Allowed != (d.DeniedBy < 0) || d.RetryAfter < 0 {
			t.Fatalf("%x: got %+v, %v", value, d, err)
		}
		if after, err := client.Get(t.Context(), accountKey).Bytes(); err != nil || d.Allowed && after[0] != 3 {
			t.Errorf("%x: Redis has %x afterwards, %v", value, after, err)
		}
	})
}

// Such values are treated as no value, replaced and reported. Accounts of other versions of the
// encoding are among them.
func TestValuesThatAreNotAccountsAreReplaced(t *testing.T) {
	server, c := redistest.Start(t), newClock()
	client := newClient(t, redisclient.Options{Addresses: []string{server.Addr()}})
	p := mixed(t)
	account := func() []byte {
		s := newStore(t, redisstore.Options{Client: client, Prefix: "elsewhere:", Clock: c.Now})
		decide(t, s, "t", p)
		c.Advance(time.Millisecond)
		decide(t, s, "t", p)
		return []byte(client.Get(t.Context(), "elsewhere:account:3:t").Val())
	}()
	const window, times, buckets = 2, 2 + 21, 2 + 21 + 2*7 // offsets: of two times; of the next window
	change := func(at int, to ...byte) []byte {
		return append(append(bytes.Clone(account[:at]), to...), account[at+len(to):]...)
	}
	swapped := change(times, append(bytes.Clone(account[times+7:times+14]), account[times:times+7]...)...)
	set := func(value []byte) func() error {
		return func() error { return client.Set(t.Context(), accountKey, value, 0).Err() }
	}
	for name, write := range map[string]func() error{
		"a list":                  func() error { return client.RPush(t.Context(), accountKey, "x").Err() },
		"a hash":                  func() error { return client.HSet(t.Context(), accountKey, "x", "y").Err() },
		"random bytes":            set([]byte("not an account")),
		"an older form":           set(change(0, 2)),
		"a later form":            set(change(0, 4)),
		"no windows, and bytes":   set(change(1, 0)),
		"nine windows":            set(change(1, 9)),
		"one byte":                set(account[:1]),
		"a truncated window":      set(account[:20]),
		"a truncated state":       set(account[:len(account)-1]),
		"one byte too many":       set(append(bytes.Clone(account), 0)),
		"buckets for times":       set(change(window, 0x81)),
		"more times than fit":     set(change(window, 66)),
		"a window without length": set(change(window+1, 0, 0, 0, 0, 0, 0)),
		"two windows of one kind": set(append(append([]byte{3, 2}, account[window:buckets]...), account[window:buckets]...)),
		"times without order":     set(swapped),
		"counts of three byte":    set(change(buckets, 0x83)),
		"a time after 2255":       set(change(times+13, 0x20)),
		"last used after 2255":    set(change(window+13, 0x20)),
		"since after 2255":        set(change(window+20, 0x20)),
		"a bucket after 2255":     set(change(buckets+21, 0x34, 0xa6, 0xf2, 0x08, 0x00, 0x00)), // the first one after 2^53 µs
	} {
		t.Run(name, func(t *testing.T) {
			server.Flush()
			testkit.Must(t, write())
			metrics, log := prometheus.NewRegistry(), make(lines, 10)
			s := newStore(t, redisstore.Options{
				Client: client, Clock: c.Now, Registerer: metrics, Logger: slog.New(slog.NewTextHandler(log, nil)),
			})
			for range 2 {
				if _, err := s.Peek(t.Context(), "t", p); err != nil {
					t.Fatal(err)
				}
			}
			if d := decide(t, s, "t", p); !d.Allowed || d.Budgets[0].Remaining != 2 || d.Budgets[1].Remaining != 4999 {
				t.Errorf("got %+v", d)
			}
			if d := decide(t, s, "t", p); d.Budgets[0].Remaining != 1 {
				t.Errorf("then %+v", d)
			}
			if n := valueOf(t, metrics, discarded); n != 3 || len(log) != 1 {
				t.Errorf("%v discarded, %d lines logged", n, len(log))
			} else if line := <-log; !strings.Contains(line, "not an account") || strings.Contains(line, accountKey) {
				t.Errorf("logged %q", line)
			}
		})
	}
}

// Gateways of another form of accounts use the same Redis: pings of neither replace those of the
// other.
func TestPingsDoNotReplaceAnotherForm(t *testing.T) {
	server, metrics := redistest.Start(t), prometheus.NewRegistry()
	s := newStore(t, redisstore.Options{Client: newClient(t, redisclient.Options{Addresses: []string{server.Addr()}}), Registerer: metrics})
	for i := range 16 {
		if err := server.Client().Set(t.Context(), fmt.Sprint("opsgate:ping:", i), "of another form", 0).Err(); err != nil {
			t.Fatal(err)
		}
	}
	for range 16 {
		if err := s.Ping(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if n := valueOf(t, metrics, discarded); n != 0 {
		t.Errorf("%v accounts discarded", n)
	}
}

func TestErrorsOfRedisAreReturnedAndNothingIsCounted(t *testing.T) {
	server := redistest.Start(t, "--requirepass", "secret")
	secured := func(password string) *redisclient.Client {
		return newClient(t, redisclient.Options{
			Addresses: []string{server.Addr()}, Credentials: func() (string, string) { return "", password },
		})
	}
	owner := secured("secret")
	configure := func(name, value string) {
		testkit.Must(t, owner.ConfigSet(context.Background(), name, value).Err())
	}
	p := specified(t)
	decide(t, newStore(t, redisstore.Options{Client: owner}), "t", p)
	for name, c := range map[string]struct {
		password, reason string
		begin, end       func()
	}{
		"no password":    {"", "NOAUTH", func() {}, func() {}},
		"wrong password": {"guess", "WRONGPASS", func() {}, func() {}},
		"out of memory":  {"secret", "OOM", func() { configure("maxmemory", "1") }, func() { configure("maxmemory", "0") }},
		"too few replicas": {"secret", "NOREPLICAS",
			func() { configure("min-replicas-to-write", "1") }, func() { configure("min-replicas-to-write", "0") }},
		"a replica": {"secret", "READONLY",
			func() { _ = owner.SlaveOf(t.Context(), "127.0.0.1", "1").Err() }, func() { _ = owner.SlaveOf(t.Context(), "NO", "ONE").Err() }},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStore(t, redisstore.Options{Client: secured(c.password)})
			before := owner.Get(t.Context(), accountKey).Val()
			c.begin()
			for name, err := range map[string]error{
				"decide": errOf(s.Decide(t.Context(), "t", p)),
				"upload": errOf2(s.Exchange(t.Context(), "t", p, ratelimit.Exchange{Op: ratelimit.OpUpload, Upload: usage(p, 3)})),
				"ping":   s.Ping(t.Context()),
			} {
				if !redis.HasErrorPrefix(err, c.reason) || !errors.Is(err, ratelimit.ErrNotExecuted) {
					t.Errorf("%s: error %v, want %s", name, err, c.reason)
				}
			}
			c.end()
			if after := owner.Get(t.Context(), accountKey).Val(); after != before {
				t.Errorf("the account changed from %x to %x", before, after)
			}
		})
	}
}

// A reply is an error reply of Redis.
type reply string

func (r reply) Error() string { return string(r) }
func (reply) RedisError()     {}

// Redis 6 adds text before the error of a command in a script; operators get the reason of Redis 7.
func TestErrorsInScriptsOfRedis6(t *testing.T) {
	const inScript = "ERR Error running script (call to f_3f55): @user_script:383: @user_script: 383: -"
	for _, want := range []string{
		"OOM command not allowed when used memory > 'maxmemory'. ", "READONLY You can't write against a read only replica. ",
		"NOREPLICAS Not enough good replicas to write. ", "MISCONF Redis is configured to save RDB snapshots, but it is currently not able to. ",
	} {
		for _, cause := range []string{want, inScript + want} {
			if got := redisstore.Normalized(reply(cause)); got.Error() != want {
				t.Errorf("%s: got %q", cause, got)
			}
		}
	}
}

func errOf(_ ratelimit.Decision, err error) error { return err }

func errOf2(_ ratelimit.Decision, _ ratelimit.Account, err error) error { return err }
