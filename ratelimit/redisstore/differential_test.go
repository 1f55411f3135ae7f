package redisstore_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"opsgate/ratelimit"
	"opsgate/ratelimit/ratelimittest"
	"opsgate/ratelimit/redisstore"
	"opsgate/ratelimit/redisstore/redistest"
)

// slower is how much slower time goes in Redis than in memory: where memory counts nanoseconds, Redis counts microseconds. So
// both round alike.
const slower = 1000

// around is the most that an account has around its counts and times: the signature of four limits, a head of two groups, four
// rings' part of that, four bytes after each of them, and which admissions were given back.
const around = (3 + 4*10) + (16 + 2*26) + 4*6 + 4*4 + 2*16

// A pair is a policy in Redis and the same in memory.
type pair struct{ redis, memory *ratelimit.Policy }

func newPair(t rapid.TB, limits ...ratelimit.Limit) pair {
	faster := make([]ratelimit.Limit, len(limits))
	for i, l := range limits {
		faster[i] = l
		faster[i].Per /= slower
	}
	return pair{redis: ratelimittest.Policy(t, limits...), memory: ratelimittest.Policy(t, faster...)}
}

func shadow(l ratelimit.Limit) ratelimit.Limit {
	l.Shadow = true
	return l
}

func pairs(t rapid.TB) []pair {
	return []pair{
		newPair(t, limit("a", 3, time.Second), limit("b", 5000, time.Hour)),
		newPair(t, limit("a", 10, time.Second), limit("b", 70, time.Minute)),
		newPair(t, limit("a", 64, 6*time.Second)),
		newPair(t, limit("a", 66, 6*time.Second), limit("b", 5, 3*time.Second)),
		newPair(t, limit("a", 1000, time.Minute)),
		newPair(t, limit("a", 40, time.Hour)),
		newPair(t, limit("a", 5, 10*time.Second), limit("b", 100, 7*time.Second), limit("c", 200, time.Minute), limit("d", 60, 13*time.Second)),
		newPair(t, limit("a", 9, time.Second), shadow(limit("b", 4, time.Second)), limit("c", 300, time.Minute), shadow(limit("d", 80, time.Minute))),
		newPair(t, limit("a", 30, time.Second), shadow(limit("b", 10, 30*time.Second))),
		newPair(t, limit("a", 100_000, 6*time.Second), limit("b", 1_000_000, time.Minute), limit("c", 1_000_000_000, time.Hour)),
	}
}

// A schedule is told to both stores.
type schedule struct {
	redis, memory ratelimit.Store
	clock, faster *ratelimittest.Clock
	granted       [][2]ratelimit.Decision
	fresh         bool // the latest thing that happened was an admission
}

func (s *schedule) advance(micros int64) {
	s.clock.Advance(time.Duration(micros) * time.Microsecond)
	s.faster.Advance(time.Duration(micros))
}

func (s *schedule) compare(t rapid.TB, p pair, ask func(ratelimit.Store, *ratelimit.Policy) (ratelimit.Decision, error)) [2]ratelimit.Decision {
	got, err := ask(s.redis, p.redis)
	if err != nil {
		t.Fatal(err)
	}
	want, err := ask(s.memory, p.memory)
	if err != nil {
		t.Fatal(err)
	}
	slow := want
	slow.RetryAfter = slower * want.RetryAfter
	for i, b := range want.Budgets {
		slow.Budgets[i].Reset = slower * b.Reset
	}
	slow.At, slow.Serial, slow.Cached = got.At, got.Serial, got.Cached
	if got != slow {
		t.Fatalf("redis   %+v\nmemory  %+v", got, slow)
	}
	s.fresh = got.Allowed
	return [2]ratelimit.Decision{got, want}
}

func (s *schedule) request(t rapid.TB, p pair) {
	d := s.compare(t, p, func(store ratelimit.Store, p *ratelimit.Policy) (ratelimit.Decision, error) {
		return store.Decide(context.Background(), "t", p)
	})
	if d[0].Allowed {
		s.granted = append(s.granted, d)
	}
}

func (s *schedule) peek(t rapid.TB, p pair) {
	s.compare(t, p, func(store ratelimit.Store, p *ratelimit.Policy) (ratelimit.Decision, error) {
		return store.Peek(context.Background(), "t", p)
	})
	s.fresh = false
}

func (s *schedule) refund(t rapid.TB, p pair, d [2]ratelimit.Decision) {
	s.fresh = false
	if err := s.redis.Refund(context.Background(), "t", p.redis, d[0]); err != nil {
		t.Fatal(err)
	}
	if err := s.memory.Refund(context.Background(), "t", p.memory, d[1]); err != nil {
		t.Fatal(err)
	}
}

// The script decides what the memory store decides: admissions, what is left, waits, refunds, changes of limits, clocks set back.
func TestTheScriptDecidesAsMemoryDoes(t *testing.T) {
	server := redistest.Start(t)
	client := newClient(t, redisstore.ClientOptions{Addresses: []string{server.Addr()}})
	var n atomic.Int64
	rapid.Check(t, func(t *rapid.T) {
		c := newClock()
		prefix := fmt.Sprintf("%d:", n.Add(1))
		s := &schedule{clock: c, faster: ratelimittest.NewClock(time.Unix(0, c.Now().UnixMicro()))}
		s.redis = newStore(t, redisstore.Options{Client: client, Prefix: prefix, Clock: s.clock.Now})
		s.memory = ratelimit.NewMemory(ratelimit.MemoryOptions{Clock: s.faster.Now})
		all := pairs(t)
		current := rapid.SampledFrom(all).Draw(t, "policy")
		gap := rapid.SampledFrom([]int64{0, 1, 999, 1_000, 77_000, 400_000, 1_000_000})
		t.Repeat(map[string]func(*rapid.T){
			"": func(t *rapid.T) {
				if size := server.Client().StrLen(context.Background(), prefix+"limits:t").Val(); size > ratelimit.MaxStateBytes+around {
					t.Fatalf("an account of %d bytes", size)
				}
			},
			"request": func(t *rapid.T) { s.request(t, current) },
			"peek":    func(t *rapid.T) { s.peek(t, current) },
			"burst": func(t *rapid.T) {
				for range rapid.IntRange(2, 150).Draw(t, "requests") {
					s.advance(gap.Draw(t, "gap"))
					s.request(t, current)
				}
			},
			"wait": func(t *rapid.T) { s.advance(rapid.Int64Range(0, 20_000_000).Draw(t, "µs")) },
			"wait longer": func(t *rapid.T) {
				s.advance(rapid.Int64Range(0, 4_000_000_000).Draw(t, "µs"))
			},
			"refund": func(t *rapid.T) {
				if len(s.granted) == 0 {
					t.Skip("nothing was granted")
				}
				d := s.granted[rapid.IntRange(max(0, len(s.granted)-140), len(s.granted)-1).Draw(t, "decision")]
				for range rapid.IntRange(1, 2).Draw(t, "times") {
					s.refund(t, current, d)
				}
			},
			"step back": func(t *rapid.T) {
				if !s.fresh { // memory knows when it last refused, too, and forgets what had run out by then
					t.Skip("nothing was admitted just now")
				}
				s.advance(-rapid.Int64Range(1, 90_000_000).Draw(t, "µs"))
				s.granted = nil
				s.request(t, current) // a peek would bring memory in order, and leaves Redis as it is
			},
			"change policy": func(t *rapid.T) { current = rapid.SampledFrom(all).Draw(t, "policy") },
		})
	})
}
