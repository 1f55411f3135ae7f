package redistest_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"opsgate/internal/testkit"
	"opsgate/ratelimit/redisstore/redistest"
)

func TestMain(m *testing.M) { testkit.VerifyTestMain(m) }

func TestServerIsEmptyAfterARestart(t *testing.T) {
	s := redistest.Start(t)
	ctx, c := t.Context(), s.Client()
	testkit.Must(t, c.Set(ctx, "k", "v", 0).Err())
	before := s.Addr()
	s.Restart()
	if n, err := c.Exists(ctx, "k").Result(); err != nil || n != 0 || s.Addr() != before {
		t.Errorf("%d keys at %s, error %v", n, s.Addr(), err)
	}
	s.Kill()
	if err := c.Ping(ctx).Err(); err == nil {
		t.Error("a killed server answers")
	}
}

func TestPausedServerAnswersAfterResume(t *testing.T) {
	s := redistest.Start(t)
	s.Pause()
	brief, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	client := redis.NewClient(&redis.Options{Addr: s.Addr(), ContextTimeoutEnabled: true, MaxRetries: -1})
	defer func() { _ = client.Close() }()
	if err := client.Ping(brief).Err(); !errors.Is(err, context.DeadlineExceeded) && !os.IsTimeout(err) {
		t.Errorf("paused: %v", err)
	}
	s.Resume()
	s.Flush()
}

func TestClusterAcceptsEveryKey(t *testing.T) {
	c := redistest.StartCluster(t)
	client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: c.Addrs()})
	defer func() { _ = client.Close() }()
	for i := range 100 {
		testkit.Must(t, client.Set(t.Context(), fmt.Sprint("key-", i), "v", 0).Err())
	}
	for _, s := range c.Servers {
		if n := s.Client().DBSize(t.Context()).Val(); n == 0 {
			t.Errorf("%s has none of 100 keys", s.Addr())
		}
	}
}

func TestReplicaBecomesTheMaster(t *testing.T) {
	w := redistest.StartSentinelGroup(t, "main")
	master, replica := w.Roles()
	ctx := t.Context()
	testkit.Must(t, errors.Join(master.Client().Set(ctx, "k", "v", 0).Err(), master.Client().Wait(ctx, 1, 0).Err()))
	if n := replica.Client().DBSize(ctx).Val(); n != 1 {
		t.Fatalf("the replica has %d keys", n)
	}
	w.Sentinels[0].Kill()
	w.FailOverEmpty()
	client := redis.NewFailoverClient(&redis.FailoverOptions{MasterName: "main", SentinelAddrs: w.Addrs(), MaxRetries: -1, DialerRetries: 1})
	defer func() { _ = client.Close() }()
	bounded, cancel := context.WithTimeout(ctx, testkit.MaxWait)
	defer cancel()
	again := time.NewTicker(5 * time.Millisecond)
	defer again.Stop()
	for err := client.Set(bounded, "other", "v", 0).Err(); err != nil; err = client.Set(bounded, "other", "v", 0).Err() {
		select {
		case <-again.C:
		case <-bounded.Done():
			t.Fatal(err)
		}
	}
	for now, _ := w.Roles(); now != replica; now, _ = w.Roles() { // sentinels learn of it one after the other
		select {
		case <-again.C:
		case <-bounded.Done():
			t.Fatalf("%s is the master", now.Addr())
		}
	}
	if n := replica.Client().DBSize(ctx).Val(); n != 1 {
		t.Errorf("the new master has %d keys", n)
	}
}
