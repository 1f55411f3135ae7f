package redisstore_test

import (
	"testing"
	"time"

	"opsgate/ratelimit"
	"opsgate/ratelimit/ratelimittest"
	"opsgate/ratelimit/redisstore"
	"opsgate/ratelimit/redisstore/redistest"
)

// gateways returns two stores on one server and the clock of both.
func gateways(t *testing.T) (server *redistest.Server, c *ratelimittest.Clock, here, there *redisstore.Store) {
	t.Helper()
	server, c = redistest.Start(t), newClock()
	client := newClient(t, redisstore.ClientOptions{Addresses: []string{server.Addr()}})
	return server, c, newStore(t, redisstore.Options{Client: client, Clock: c.Now}), newStore(t, redisstore.Options{Client: client, Clock: c.Now})
}

func remaining(t *testing.T, s *redisstore.Store, p *ratelimit.Policy) int {
	t.Helper()
	d, err := s.Peek(t.Context(), "t", p)
	if err != nil {
		t.Fatal(err)
	}
	return d.Budgets[len(p.Limits())-1].Remaining
}

func settle(t *testing.T, s *redisstore.Store, p *ratelimit.Policy, before, during []ratelimit.Spending) {
	t.Helper()
	if err := s.Settle(t.Context(), "t", p, before, during); err != nil {
		t.Fatal(err)
	}
}

// Ten were spent, and both gateways know of it. While Redis was away they admitted two and three more.
func TestAnOutageIsSettled(t *testing.T) {
	for name, lost := range map[string]bool{"with everything kept": false, "with everything lost": true} {
		t.Run(name, func(t *testing.T) {
			server, c, here, there := gateways(t)
			p := specified(t)
			for range 10 {
				decide(t, here, "t", p)
				c.Advance(time.Second)
			}
			if lost {
				server.Flush()
			}
			c.Advance(time.Minute)
			known := []ratelimit.Spending{{Age: 61 * time.Second, N: 4}, {Age: 65 * time.Second, N: 6}}
			settle(t, here, p, known, []ratelimit.Spending{{Age: 20 * time.Second, N: 2}})
			if n := remaining(t, here, p); n != 4988 {
				t.Errorf("%d remain after the first gateway", n)
			}
			if d := decide(t, here, "t", p); d.Budgets[1].Remaining != 4987 {
				t.Errorf("%d remain after its next request", d.Budgets[1].Remaining)
			}
			settle(t, there, p, known, []ratelimit.Spending{{Age: 200 * time.Millisecond, N: 1}, {Age: 30 * time.Second, N: 2}})
			if n := remaining(t, there, p); n != 4984 {
				t.Errorf("%d remain after the second gateway", n)
			}
			// One 200 ms ago, and one just now: the shorter limit knows of both.
			if d := decide(t, there, "t", p); !d.Allowed || decide(t, there, "t", p).RetryAfter != 800*time.Millisecond {
				t.Errorf("then: %+v", d)
			}
		})
	}
}

// Redis lost everything. A gateway that knows nothing of the token lets it in first; others tell of it afterwards, each of what it
// knows, and what the one who knows most has to tell counts.
func TestWhatWasLostIsToldLater(t *testing.T) {
	_, c, here, there := gateways(t)
	p := specified(t)
	decide(t, here, "t", p)
	c.Advance(2 * time.Minute)
	left := 4999
	for _, told := range []struct {
		s     *redisstore.Store
		known []ratelimit.Spending
		news  int
	}{
		{there, []ratelimit.Spending{{Age: 5 * time.Minute, N: 100}}, 100},
		{here, []ratelimit.Spending{{Age: 4 * time.Minute, N: 70}, {Age: 10 * time.Minute, N: 5}}, 0},
		{here, []ratelimit.Spending{{Age: 4 * time.Minute, N: 90}, {Age: 10 * time.Minute, N: 50}}, 40},
	} {
		settle(t, told.s, p, told.known, nil)
		left -= told.news
		if n := remaining(t, here, p); n != left {
			t.Errorf("%d remain after %v, want %d", n, told.known, left)
		}
	}
}

// More was admitted by gateways that were alone than the limit allows. It counts, and the limit holds at once.
func TestMoreThanTheLimitIsSettled(t *testing.T) {
	_, c, here, there := gateways(t)
	p := specified(t)
	var many []ratelimit.Spending
	for i := range 3000 {
		many = append(many, ratelimit.Spending{Age: time.Duration(i) * time.Second / 2, N: 2})
	}
	settle(t, here, p, nil, many)
	d := decide(t, there, "t", p)
	if d.Allowed || d.Denied != 1 || d.Budgets[1].Remaining != 0 {
		t.Fatalf("6000 of 5000 spent: %+v", d)
	}
	c.Advance(d.RetryAfter)
	if d := decide(t, there, "t", p); !d.Allowed {
		t.Errorf("when the hour opens: %+v", d)
	}
}

// What was spent before an outage cannot be given back after it: its place among the others is not known any more.
func TestSettlingEndsRefunds(t *testing.T) {
	_, _, here, there := gateways(t)
	p := hourly(t, 10)
	admitted := decide(t, here, "t", p)
	settle(t, there, p, nil, []ratelimit.Spending{{Age: time.Second, N: 1}})
	if err := here.Refund(t.Context(), "t", p, admitted); err != nil {
		t.Fatal(err)
	}
	if n := remaining(t, here, p); n != 8 {
		t.Errorf("%d remain", n)
	}
}
