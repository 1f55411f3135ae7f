package ratelimit_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"
	"pgregory.net/rapid"

	"opsgate/internal/testkit"
	"opsgate/ratelimit"
	"opsgate/ratelimit/ratelimittest"
	"opsgate/ratelimit/redisclient"
	"opsgate/ratelimit/redisstore"
	"opsgate/ratelimit/redisstore/redistest"
)

func limit(name string, requests int, per time.Duration) ratelimit.Limit {
	return ratelimit.Limit{Name: name, Requests: requests, Per: per}
}

func shadow(l ratelimit.Limit) ratelimit.Limit {
	l.Shadow = true
	return l
}

// comparedPolicies returns policies with every kind of window and every size of counts, with and
// without limits in shadow.
func comparedPolicies(t rapid.TB) []*ratelimit.Policy {
	var policies []*ratelimit.Policy
	for _, limits := range [][]ratelimit.Limit{
		{limit("a", 3, time.Second), limit("b", 5000, time.Hour)},
		{limit("a", 10, time.Second), limit("b", 70, time.Minute)},
		{limit("a", 64, 6*time.Second)},
		{limit("a", 66, 6*time.Second), limit("b", 5, 3*time.Second)},
		{limit("a", 40, time.Hour)},
		{limit("a", 5, 10*time.Second), limit("b", 100, 7*time.Second), limit("c", 200, time.Minute), limit("d", 60, 13*time.Second)},
		{limit("a", 9, time.Second), shadow(limit("b", 4, time.Second)), limit("c", 300, time.Minute), shadow(limit("d", 80, time.Minute))},
		{limit("a", 30, time.Second), shadow(limit("b", 10, 30*time.Second))},
		{limit("a", 100_000, 6*time.Second), limit("b", 1_000_000, time.Minute), limit("c", 1_000_000_000, 31*24*time.Hour)},
	} {
		policies = append(policies, ratelimittest.Policy(t, limits...))
	}
	return policies
}

// A comparison executes the same operations in Redis and with this package.
type comparison struct {
	redis    *redisstore.Store
	client   *redis.Client
	key      string
	clock    *ratelimittest.Clock
	policy   *ratelimit.Policy
	before   *ratelimit.Policy // before the last change
	account  ratelimit.Account // expected in Redis; nil for none
	admitted []ratelimit.Decision
}

// checkStored checks the account in Redis.
func (c *comparison) checkStored(t rapid.TB) {
	got, err := c.client.Get(context.Background(), c.key).Bytes()
	if err != nil && !errors.Is(err, redis.Nil) {
		t.Fatal(err)
	}
	if !bytes.Equal(got, c.account) {
		t.Fatalf("Redis has\n%x, want\n%x", got, c.account)
	}
}

func (c *comparison) exchange(t rapid.TB, x ratelimit.Exchange) {
	want, write, decided := c.policy.ExecuteExchange(c.account, x, c.clock.Now())
	d, got, err := c.redis.Exchange(context.Background(), "t", c.policy, x)
	if err != nil || d != decided || !bytes.Equal(got, want) {
		t.Fatalf("exchange %+v: got error %v\n%+v\n%x\nwant\n%+v\n%x", x, err, d, got, decided, want)
	}
	if write {
		c.account = slices.Clone(want)
	}
	if x.Op == ratelimit.OpDecide && d.Allowed {
		c.admitted = append(c.admitted, d)
	}
	c.checkStored(t)
}

// own returns an account of local admissions before now.
func (c *comparison) own(t *rapid.T, p *ratelimit.Policy) (own ratelimit.Account) {
	at := c.clock.Now()
	for range rapid.IntRange(0, 90).Draw(t, "own") {
		at = at.Add(-time.Duration(rapid.Int64Range(0, 1_000_000).Draw(t, "before")) * time.Microsecond)
	}
	for at.Before(c.clock.Now()) && len(own) < 1000 {
		own, _ = alone(p, own, at)
		at = at.Add(time.Duration(rapid.Int64Range(1, 2_000_000).Draw(t, "after")) * time.Microsecond)
	}
	return own
}

func (c *comparison) actions() map[string]func(*rapid.T) {
	gap := rapid.SampledFrom([]int64{0, 1, 999, 77_000, 400_000, 1_000_000})
	op := rapid.SampledFrom([]ratelimit.Op{ratelimit.OpDecide, ratelimit.OpPeek, ratelimit.OpUpload})
	advance := func(micros int64) { c.clock.Advance(time.Duration(micros) * time.Microsecond) }
	return map[string]func(*rapid.T){
		"request": func(t *rapid.T) { c.exchange(t, ratelimit.Exchange{Op: ratelimit.OpDecide}) },
		"peek":    func(t *rapid.T) { c.exchange(t, ratelimit.Exchange{Op: ratelimit.OpPeek}) },
		"burst": func(t *rapid.T) {
			for range rapid.IntRange(2, 150).Draw(t, "requests") {
				advance(gap.Draw(t, "gap"))
				c.exchange(t, ratelimit.Exchange{Op: ratelimit.OpDecide})
			}
		},
		"upload": func(t *rapid.T) {
			by := rapid.SampledFrom([]*ratelimit.Policy{c.policy, c.before}).Draw(t, "policy of the upload")
			c.exchange(t, ratelimit.Exchange{Op: op.Draw(t, "op"), Upload: c.own(t, by)})
		},
		"refund": func(t *rapid.T) {
			if len(c.admitted) == 0 {
				t.Skip("nothing was admitted")
			}
			d := rapid.SampledFrom(c.admitted).Draw(t, "decision")
			testkit.Must(t, c.redis.Refund(context.Background(), "t", d))
			c.account = slices.Clone(c.account).Refund(d.At)
			c.checkStored(t)
		},
		"lose the account": func(t *rapid.T) {
			testkit.Must(t, c.client.Del(context.Background(), c.key).Err())
			c.account = nil
		},
		"wait":        func(t *rapid.T) { advance(rapid.Int64Range(0, 20_000_000).Draw(t, "µs")) },
		"wait longer": func(t *rapid.T) { advance(rapid.Int64Range(0, 4_000_000_000).Draw(t, "µs")) },
		"step back":   func(t *rapid.T) { advance(-rapid.Int64Range(1, 90_000_000).Draw(t, "µs")) },
		"change policy": func(t *rapid.T) {
			c.before, c.policy = c.policy, rapid.SampledFrom(comparedPolicies(t)).Draw(t, "policy")
		},
	}
}

// The accounts and decisions of the script and of this package are the same, byte by byte, after
// any sequence of operations.
func TestScriptDecidesAsThePackageDoes(t *testing.T) {
	server := redistest.Start(t)
	client, err := redisclient.New(redisclient.Options{Addresses: []string{server.Addr()}, Timeout: 5 * time.Second, DialTimeout: 5 * time.Second})
	testkit.Must(t, err)
	t.Cleanup(func() { _ = client.Close() })
	var n atomic.Int64
	rapid.Check(t, func(t *rapid.T) {
		prefix := fmt.Sprintf("%d:", n.Add(1))
		p := comparedPolicies(t)[0]
		c := &comparison{client: server.Client(), key: prefix + "account:3:t", clock: newClock(), policy: p, before: p}
		c.redis, err = redisstore.New(redisstore.Options{
			Client: client, Prefix: prefix, Clock: c.clock.Now, Logger: slog.New(slog.DiscardHandler), Registerer: prometheus.NewRegistry(),
		})
		testkit.Must(t, err)
		t.Repeat(c.actions())
	})
}
