package redisstore_test

import (
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"opsgate/internal/testkit"
	"opsgate/ratelimit"
	"opsgate/ratelimit/ratelimittest"
	"opsgate/ratelimit/redisclient"
	"opsgate/ratelimit/redisstore"
	"opsgate/ratelimit/redisstore/redistest"
)

// 20 clients of two gateways make requests of one token until 12 are admitted. No second has more
// than three admissions.
func TestThreePerSecondByTheClockOfTheServer(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	var stores []*redisstore.Store
	for range 2 {
		stores = append(stores, newStore(t, redisstore.Options{Client: newClient(t, redisclient.Options{Addresses: []string{server.Addr()}})}))
	}
	p := specified(t)
	var mu sync.Mutex
	var admitted []time.Time
	var wg sync.WaitGroup
	enough := func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(admitted) >= 12
	}
	end := time.Now().Add(time.Minute)
	for i := range 20 {
		wg.Go(func() {
			for n := 0; !enough() && time.Now().Before(end); n++ {
				if i == 0 && n%100 == 0 { // the script is sent again
					if err := server.Client().ScriptFlush(t.Context()).Err(); err != nil {
						t.Error(err)
					}
				}
				d, err := stores[i%2].Decide(t.Context(), "t", p)
				if err != nil {
					t.Error(err)
					return
				}
				if d.Allowed {
					mu.Lock()
					admitted = append(admitted, d.At)
					mu.Unlock()
				}
			}
		})
	}
	wg.Wait()
	slices.SortFunc(admitted, time.Time.Compare)
	for i := 3; i < len(admitted); i++ {
		if gap := admitted[i].Sub(admitted[i-3]); gap < time.Second {
			t.Errorf("four within %v", gap)
		}
	}
	if !enough() {
		t.Errorf("%d admitted in a minute", len(admitted))
	}
	testkit.Must(t, stores[0].Ping(t.Context()))
}

// An account expires with its usage. Peeks store nothing.
func TestAccountExpiresWithItsUsage(t *testing.T) {
	server := redistest.Start(t)
	s := newStore(t, redisstore.Options{Client: newClient(t, redisclient.Options{Addresses: []string{server.Addr()}})})
	p := specified(t)
	if _, err := s.Peek(t.Context(), "t", p); err != nil {
		t.Fatal(err)
	}
	if n := server.Client().DBSize(t.Context()).Val(); n != 0 {
		t.Errorf("%d keys after a peek", n)
	}
	d := decide(t, s, "t", p)
	for range 2 {
		if left := server.Client().PTTL(t.Context(), "opsgate:account:3:t").Val(); left < time.Hour || left > 61*time.Minute+time.Second {
			t.Errorf("expires in %v", left)
		}
		testkit.Must(t, s.Refund(t.Context(), "t", d))
	}
	brief := ratelimittest.Policy(t, limit("brief", 1, 10*time.Millisecond))
	decide(t, s, "brief", brief)
	testkit.Eventually(t, "the account expires", func() bool { return server.Client().Exists(t.Context(), "opsgate:account:3:brief").Val() == 0 })
}

// A call to a server that hangs ends after its timeout, also where it makes a new connection. By
// default, go-redis waits for 5 s.
func TestCallToAHangingServerTimesOut(t *testing.T) {
	t.Parallel()
	for name, start := range map[string]func(testing.TB) ([]string, *redistest.Server){
		"single": func(t testing.TB) ([]string, *redistest.Server) {
			s := redistest.Start(t)
			return []string{s.Addr()}, s
		},
		"cluster": func(t testing.TB) ([]string, *redistest.Server) {
			c := redistest.StartCluster(t)
			return c.Addrs(), c.Servers[0]
		},
	} {
		t.Run(name, func(t *testing.T) {
			addresses, server := start(t)
			s := newStore(t, redisstore.Options{Client: newClient(t, redisclient.Options{
				Addresses: addresses, Timeout: 50 * time.Millisecond, DialTimeout: 100 * time.Millisecond,
			})})
			p := specified(t)
			token := tokenOn(t, server, s, p)
			server.Pause()
			var wg sync.WaitGroup
			for range 30 {
				wg.Go(func() {
					for range 3 {
						start := time.Now()
						_, err := s.Decide(t.Context(), token, p)
						took := time.Since(start)
						if err == nil || took > 3*time.Second { // 52 ms on an idle machine
							t.Errorf("it took %v: %v", took, err)
						}
					}
				})
			}
			wg.Wait()
			server.Resume()
			testkit.Eventually(t, "the server answers again", func() bool { return s.Ping(t.Context()) == nil })
		})
	}
}

// tokenOn returns a token whose account is in the server.
func tokenOn(t *testing.T, server *redistest.Server, s *redisstore.Store, p *ratelimit.Policy) string {
	t.Helper()
	for i := range 1000 {
		token := strings.Repeat("t", i+1)
		_, _ = s.Decide(t.Context(), token, p)
		if server.Client().Exists(t.Context(), "opsgate:account:3:"+token).Val() == 1 {
			return token
		}
	}
	t.Fatal("no token in 1000")
	return ""
}

// moveSlot returns the steps that move the slot of a key from the first master to the second.
func moveSlot(t *testing.T, cluster *redistest.Cluster, key string) []func() {
	t.Helper()
	from, to := cluster.Servers[0], cluster.Servers[1]
	do := func(server *redistest.Server, args ...any) any {
		reply, err := server.Client().Do(t.Context(), args...).Result()
		if err != nil {
			t.Fatalf("%v: %v", args, err)
		}
		return reply
	}
	slot := do(from, "CLUSTER", "KEYSLOT", key)
	fromID, toID := do(from, "CLUSTER", "MYID"), do(to, "CLUSTER", "MYID")
	host, port, err := net.SplitHostPort(to.Addr())
	testkit.Must(t, err)
	return []func(){
		func() { do(to, "CLUSTER", "SETSLOT", slot, "IMPORTING", fromID) },
		func() { do(from, "CLUSTER", "SETSLOT", slot, "MIGRATING", toID) },
		func() { do(from, "MIGRATE", host, port, key, 0, 5000) },
		func() { do(to, "CLUSTER", "SETSLOT", slot, "NODE", toID) },
		func() { do(from, "CLUSTER", "SETSLOT", slot, "NODE", toID) },
	}
}
