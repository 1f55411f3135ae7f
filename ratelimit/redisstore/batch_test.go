package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"opsgate/internal/testkit"
	"opsgate/ratelimit"
	"opsgate/ratelimit/redisclient"
	"opsgate/ratelimit/redisstore"
	"opsgate/ratelimit/redisstore/redistest"
)

// concurrently calls a function once for each caller, and waits.
func concurrently(callers int, call func(caller int)) {
	var wg sync.WaitGroup
	for i := range callers {
		wg.Go(func() { call(i) })
	}
	wg.Wait()
}

// used returns the number of admissions of a token.
func used(t *testing.T, s *redisstore.Store, token string, p *ratelimit.Policy) int {
	t.Helper()
	d, err := s.Peek(t.Context(), token, p)
	testkit.Must(t, err)
	return p.Limits()[0].Requests - d.Budgets[0].Remaining
}

// Callers that wait for a server that hangs get an error by their deadline. When it resumes, the
// server executes only the calls that were in flight, because those that waited are not sent.
func TestServerThatResumesExecutesFewCallsThatTimedOut(t *testing.T) {
	server := redistest.Start(t)
	s := newStore(t, redisstore.Options{Client: newClient(t, redisclient.Options{
		Addresses: []string{server.Addr()}, Timeout: 500 * time.Millisecond, DialTimeout: time.Second,
	})})
	p := hourly(t, 1_000_000)
	var decided, longest atomic.Int64
	concurrently(200, func(int) {
		for {
			start := time.Now()
			if _, err := s.Decide(t.Context(), "t", p); err != nil {
				if took := int64(time.Since(start)); took > longest.Load() {
					longest.Store(took)
				}
				return
			}
			if decided.Add(1) == 2000 {
				server.Pause()
			}
		}
	})
	server.Resume()
	testkit.Eventually(t, "the server answers again", func() bool { return s.Ping(t.Context()) == nil })
	late := used(t, s, "t", p) - int(decided.Load())
	t.Logf("%d decided, %d executed late, the longest call took %v", decided.Load(), late, time.Duration(longest.Load()))
	if late < 0 || late > 32 {
		t.Errorf("%d calls executed late, want at most 32", late)
	}
	if took := time.Duration(longest.Load()); took > 3*time.Second { // 501 ms on an idle machine; go-redis waits for 5 s by default
		t.Errorf("a call took %v", took)
	}
}

// Calls of a batch whose keys Redis denies fail, and no other call does, although the script is
// flushed all the time.
func TestErrorOfACallAffectsNoOther(t *testing.T) {
	server := redistest.Start(t)
	s := newStore(t, redisstore.Options{Client: newClient(t, redisclient.Options{Addresses: []string{server.Addr()}})})
	testkit.Must(t, server.Client().LPush(t.Context(), "opsgate:account:3:ok1", "of another type").Err())
	testkit.Must(t, server.Client().Do(t.Context(), "ACL", "SETUSER", "default", "resetkeys", "~opsgate:account:3:ok*").Err())
	p := hourly(t, 1000)
	concurrently(60, func(caller int) {
		for n := range 50 {
			if caller == 1 {
				if err := server.Client().ScriptFlush(t.Context()).Err(); err != nil {
					t.Error(err)
				}
			}
			if caller%3 == 0 {
				if _, err := s.Decide(t.Context(), "denied", p); !redis.HasErrorPrefix(errors.Unwrap(err), "NOPERM") {
					t.Errorf("call %d of caller %d: got %v", n, caller, err)
					return
				}
				continue
			}
			if d, err := s.Decide(t.Context(), fmt.Sprint("ok", caller), p); err != nil || d.Budgets[0].Remaining != 999-n {
				t.Errorf("call %d of caller %d: got %+v, %v", n, caller, d, err)
				return
			}
		}
	})
}

// Calls whose connection breaks fail at once, and no call is executed twice.
func TestBrokenConnectionsFailTheirCalls(t *testing.T) {
	server := redistest.Start(t)
	s := newStore(t, redisstore.Options{Client: newClient(t, redisclient.Options{Addresses: []string{server.Addr()}})})
	p := hourly(t, 1_000_000)
	var decided, failed atomic.Int64
	concurrently(100, func(caller int) {
		for n := range 50 {
			if caller == 0 && n%5 == 0 {
				server.Client().ClientKillByFilter(t.Context(), "TYPE", "normal")
			}
			if _, err := s.Decide(t.Context(), "t", p); err != nil {
				failed.Add(1)
			} else {
				decided.Add(1)
			}
		}
	})
	got := used(t, s, "t", p)
	t.Logf("%d decided, %d failed, %d executed", decided.Load(), failed.Load(), got)
	if d := int(decided.Load()); got < d || got > d+int(failed.Load()) {
		t.Errorf("%d executed: %d decided, %d failed", got, d, failed.Load())
	}
	server.Kill()
	start := time.Now()
	concurrently(100, func(int) {
		if _, err := s.Decide(t.Context(), "t", p); err == nil {
			t.Error("decided without a server")
		}
	})
	if took := time.Since(start); took > 4900*time.Millisecond { // less than the timeout of a call
		t.Errorf("it took %v", took)
	}
}

// While a cluster moves a slot, concurrent requests are decided and count once.
func TestAccountsMoveWithTheirSlotUnderLoad(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t)
	s := newStore(t, redisstore.Options{Client: newClient(t, redisclient.Options{Addresses: cluster.Addrs()})})
	p := hourly(t, 1_000_000)
	token := tokenOn(t, cluster.Servers[0], s, p)
	before := used(t, s, token, p)
	const callers = 60
	var wg sync.WaitGroup
	var decided atomic.Int64
	ctx, stop := context.WithCancel(t.Context())
	for i := range callers {
		wg.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				if i%2 == 0 { // of the slot that moves
					if _, err := s.Decide(t.Context(), token, p); err != nil {
						t.Error(err)
					}
					decided.Add(1)
				} else if d, err := s.Decide(t.Context(), fmt.Sprint(i), p); err != nil || d.Budgets[0].Remaining != 999_999-n {
					t.Errorf("%d of caller %d: %+v, %v", n, i, d, err)
				}
			}
		})
	}
	for _, step := range moveSlot(t, cluster, "opsgate:account:3:"+token) {
		step()
		goal := decided.Load() + 200
		testkit.Eventually(t, "more are decided", func() bool { return decided.Load() > goal })
	}
	stop()
	wg.Wait()
	if got := used(t, s, token, p) - before; got != int(decided.Load()) {
		t.Errorf("%d executed, %d decided", got, decided.Load())
	}
}

// Calls to a node of a cluster that hangs fail, and calls to other nodes do not.
func TestHangingNodeAffectsNoOther(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t)
	s := newStore(t, redisstore.Options{Client: newClient(t, redisclient.Options{Addresses: cluster.Addrs()})})
	p := hourly(t, 1_000_000)
	hanging, well := tokenOn(t, cluster.Servers[0], s, p), tokenOn(t, cluster.Servers[1], s, p)
	cluster.Servers[0].Pause()
	concurrently(80, func(caller int) {
		if caller%2 == 0 {
			if _, err := s.Decide(t.Context(), well, p); err != nil {
				t.Error(err)
			}
		} else if _, err := s.Decide(t.Context(), hanging, p); err == nil {
			t.Error("decided by a node that hangs")
		}
	})
}

// The hook is called for each call, also for those in batches, and a server gets a connection for
// each batch in flight only.
func TestConcurrentCallsShareConnections(t *testing.T) {
	server := redistest.Start(t)
	hook := &countingHook{}
	s := newStore(t, redisstore.Options{Client: newClient(t, redisclient.Options{Addresses: []string{server.Addr()}}), Hook: hook})
	p := hourly(t, 1_000_000)
	decide(t, s, "t", p) // loads the script
	hook.calls.Store(0)
	concurrently(100, func(int) {
		for range 20 {
			if _, err := s.Decide(t.Context(), "t", p); err != nil {
				t.Error(err)
			}
		}
	})
	if got := hook.calls.Load(); got != 2000 {
		t.Errorf("%d calls of the hook", got)
	}
	clients, err := server.Client().ClientList(t.Context()).Result()
	testkit.Must(t, err)
	if n := strings.Count(clients, "cmd=evalsha"); n > 4 {
		t.Errorf("%d connections", n)
	}
}

type countingHook struct{ calls atomic.Int64 }

func (*countingHook) DialHook(next redis.DialHook) redis.DialHook { return next }

func (*countingHook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (h *countingHook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, c redis.Cmder) error {
		h.calls.Add(int64(min(1, len(c.Args())))) // as the hook of tracing, it reads the arguments
		return next(ctx, c)
	}
}

// Calls that Redis has not received, alone and in batches, are told from calls that it may have
// executed.
func TestErrorsTellUnexecutedCalls(t *testing.T) {
	t.Parallel()
	closed := redistest.Start(t)
	closed.Kill()
	hanging := redistest.Start(t)
	for name, c := range map[string]struct {
		o    redisclient.Options
		sent bool
	}{
		"refused":    {redisclient.Options{Addresses: []string{closed.Addr()}}, false},
		"hangs":      {redisclient.Options{Addresses: []string{hanging.Addr()}}, true},
		"AUTH hangs": {redisclient.Options{Addresses: []string{hanging.Addr()}, Credentials: func() (string, string) { return "", "x" }}, false},
		"queue":      {redisclient.Options{Addresses: []string{hanging.Addr()}, PoolSize: 1, Credentials: func() (string, string) { return "", "x" }}, false},
	} {
		t.Run(name, func(t *testing.T) {
			c.o.Timeout, c.o.DialTimeout = time.Second, 2*time.Second
			s := newStore(t, redisstore.Options{Client: newClient(t, c.o), Hook: &countingHook{}})
			p := hourly(t, 1000)
			if c.sent {
				testkit.Eventually(t, "it is connected", func() bool {
					_, err := s.Decide(t.Context(), "t", p)
					return err == nil
				})
			}
			hanging.Pause()
			defer hanging.Resume()
			var unsent atomic.Int64
			concurrently(12, func(int) {
				if _, err := s.Decide(t.Context(), "t", p); err == nil {
					t.Error("decided")
				} else if errors.Is(err, ratelimit.ErrNotExecuted) {
					unsent.Add(1)
				}
			})
			if n := unsent.Load(); (n < 12) != c.sent {
				t.Errorf("%d of 12 calls were not sent", n)
			}
		})
	}
}
