package redisstore_test

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"opsgate/ratelimit"
	"opsgate/ratelimit/redisstore"
	"opsgate/ratelimit/redisstore/redistest"
)

// Whatever stands in Redis under a token's key, Redis goes on: a script ends, by itself and soon. What another version or another
// program wrote is as if it were not there.
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
	for range 5 { // what gateways leave there, cut off, and with numbers that are none
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
		f.Add(append(append(bytes.Clone(kept[:33]), make([]byte, 8)...), kept[41:]...)) // as of 1970
		for at := range kept {
			odd := bytes.Clone(kept)
			odd[at] = 0xff
			f.Add(odd)
		}
	}
	f.Fuzz(func(t *testing.T, kept []byte) {
		if err := client.Set(t.Context(), key, kept, 0).Err(); err != nil {
			t.Fatal(err)
		}
		d, err := s.Decide(t.Context(), "t", p)
		if isAccount := bytes.HasPrefix(kept, []byte{1}); !isAccount && (err != nil || !d.Allowed || d.Budgets[0].Remaining != 2) {
			t.Errorf("%q is none of ours, and decides: %+v, %v", kept, d, err)
		}
		settleErr := s.Settle(t.Context(), "t", p, nil, []ratelimit.Spending{{Age: time.Second, N: 1}})
		refundErr := s.Refund(t.Context(), "t", p, d)
		for _, err := range []error{err, settleErr, refundErr, client.Ping(t.Context()).Err()} {
			if err != nil && !strings.Contains(err.Error(), "user_script:") {
				t.Errorf("%q: %v", kept, err)
			}
		}
	})
}
