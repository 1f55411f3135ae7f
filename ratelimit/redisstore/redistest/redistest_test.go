package redistest_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"opsgate/ratelimit/redisstore/redistest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestAServerIsEmptyAfterARestart(t *testing.T) {
	s := redistest.Start(t)
	ctx, c := t.Context(), s.Client()
	if err := c.Set(ctx, "k", "v", 0).Err(); err != nil {
		t.Fatal(err)
	}
	before := s.Addr()
	s.Restart()
	if n, err := c.Exists(ctx, "k").Result(); err != nil || n != 0 || s.Addr() != before {
		t.Errorf("%d keys at %s, error %v", n, s.Addr(), err)
	}
	s.Kill()
	if err := c.Ping(ctx).Err(); err == nil {
		t.Error("a server that was killed answers")
	}
}

func TestAFrozenServerAnswersWhenItThaws(t *testing.T) {
	s := redistest.Start(t)
	s.Freeze()
	brief, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	impatient := redis.NewClient(&redis.Options{Addr: s.Addr(), ContextTimeoutEnabled: true, MaxRetries: -1})
	defer func() { _ = impatient.Close() }()
	if err := impatient.Ping(brief).Err(); !errors.Is(err, context.DeadlineExceeded) && !os.IsTimeout(err) {
		t.Errorf("frozen: %v", err)
	}
	s.Thaw()
	s.Flush()
}

func TestAClusterTakesEveryKey(t *testing.T) {
	c := redistest.StartCluster(t)
	client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: c.Addrs()})
	defer func() { _ = client.Close() }()
	for i := range 100 {
		if err := client.Set(t.Context(), fmt.Sprint("key-", i), "v", 0).Err(); err != nil {
			t.Fatal(err)
		}
	}
	for _, s := range c.Servers {
		if n := s.Client().DBSize(t.Context()).Val(); n == 0 {
			t.Errorf("%s holds none of a hundred keys", s.Addr())
		}
	}
}
