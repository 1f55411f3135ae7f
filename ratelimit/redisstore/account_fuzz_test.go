package redisstore_test

import (
	"testing"
	"time"

	"opsgate/ratelimit"
	"opsgate/ratelimit/redisstore"
	"opsgate/ratelimit/redisstore/redistest"
)

// Whatever stands in Redis under a token's key, be it of another version or of another program, a decision is made within its limits,
// what was spent can be told, and the next decision goes on from there.
func FuzzAccount(f *testing.F) {
	server, c := redistest.Start(f), newClock()
	client := newClient(f, redisstore.ClientOptions{Addresses: []string{server.Addr()}})
	s := newStore(f, redisstore.Options{Client: client, Clock: c.Now})
	limits := []ratelimit.Limit{{Name: "second", Requests: 3, Per: time.Second}, {Name: "hour", Requests: 5000, Per: time.Hour},
		{Name: "tried", Requests: 100, Per: time.Minute, Shadow: true}}
	p, err := ratelimit.NewPolicy(limits)
	if err != nil {
		f.Fatal(err)
	}
	const key = "opsgate:limits:t"
	for _, kept := range []string{"", "x", "\x01\x02\x01", "\xff"} {
		f.Add([]byte(kept))
	}
	for range 5 {
		if _, err := s.Decide(f.Context(), "t", p); err != nil {
			f.Fatal(err)
		}
		c.Advance(700 * time.Millisecond)
		kept, err := client.Get(f.Context(), key).Bytes()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(kept)
		f.Add(kept[:len(kept)-1])
	}
	f.Fuzz(func(t *testing.T, kept []byte) {
		if err := client.Set(t.Context(), key, kept, 0).Err(); err != nil {
			t.Fatal(err)
		}
		first, err := s.Decide(t.Context(), "t", p)
		if err != nil {
			return // and failover.Store decides
		}
		for i, l := range limits {
			if b := first.Budgets[i]; b.Remaining < 0 || b.Remaining > l.Requests || b.Reset < 0 || b.Reset > 2*l.Per {
				t.Errorf("%q: %s has %+v", kept, l.Name, b)
			}
		}
		if !first.Allowed && (first.RetryAfter <= 0 || first.RetryAfter > 2*time.Hour) {
			t.Errorf("%q: refused for %v", kept, first.RetryAfter)
		}
		if err := s.Settle(t.Context(), "t", p, nil, []ratelimit.Spending{{Age: time.Second, N: 1}}); err != nil {
			t.Errorf("%q: %v", kept, err)
		}
		if second, err := s.Decide(t.Context(), "t", p); err != nil || second.Budgets[1].Remaining > first.Budgets[1].Remaining {
			t.Errorf("%q: %+v, then %+v: %v", kept, first, second, err)
		}
	})
}
