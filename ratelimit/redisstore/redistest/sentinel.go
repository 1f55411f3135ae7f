package redistest

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"opsgate/internal/testkit"
)

const (
	sentinels = 3
	// quorum is the number of sentinels that must agree that the master is down. It is reached
	// without one of the three.
	quorum = 2
	// downAfter is the time without an answer after which the master is down. It is longer than
	// delays on a slow machine.
	downAfter = time.Second
	// failoverTimeout is half the time after which sentinels without a majority elect again.
	failoverTimeout = 2 * time.Second
)

// StartSentinel runs a sentinel of a master, with a quorum of 1.
func StartSentinel(t testing.TB, name string, master *Server) *Server {
	t.Helper()
	return startSentinel(t, name, fmt.Sprintf("sentinel monitor %s %s %d 1\n", name, host, master.port))
}

func startSentinel(t testing.TB, name, settings string) *Server {
	t.Helper()
	s := newServer(t)
	file := filepath.Join(s.dir, "sentinel.conf") // the sentinel rewrites it
	settings = fmt.Sprintf("port %d\nbind %s\ndir %s\n", s.port, host, s.dir) + settings
	testkit.Must(t, os.WriteFile(file, []byte(settings), 0o600))
	s.args = []string{file, "--sentinel"}
	s.Restart()
	s.await("the sentinel has the master", func(ctx context.Context) bool {
		return s.Client().Do(ctx, "SENTINEL", "GET-MASTER-ADDR-BY-NAME", name).Err() == nil
	})
	return s
}

// A SentinelGroup is a master, its replica, and three sentinels that promote the replica when two
// of them agree that the master is down.
type SentinelGroup struct {
	Sentinels []*Server

	name    string
	servers []*Server
}

// StartSentinelGroup runs a group, and returns when all sentinels can fail over.
func StartSentinelGroup(t testing.TB, name string) *SentinelGroup {
	t.Helper()
	master := Start(t, "--repl-diskless-sync-delay", "0")
	replica := Start(t, "--repl-diskless-sync-delay", "0", "--replicaof", fmt.Sprintf("%s %d", host, master.port))
	replica.await("the replica is synchronized", func(ctx context.Context) bool {
		return replica.Client().InfoMap(ctx, "replication").Item("Replication", "master_link_status") == "up"
	})
	g := &SentinelGroup{name: name, servers: []*Server{master, replica}}
	settings := fmt.Sprintf("sentinel monitor %s %s %d %d\nsentinel down-after-milliseconds %[1]s %[5]d\nsentinel "+
		"failover-timeout %[1]s %[6]d\n",
		name, host, master.port, quorum, downAfter.Milliseconds(), failoverTimeout.Milliseconds())
	for range sentinels {
		g.Sentinels = append(g.Sentinels, startSentinel(t, name, settings))
	}
	for _, s := range g.Sentinels {
		s.await("the sentinel has found the replica and the other sentinels",
			func(ctx context.Context) bool { return s.canFailOver(ctx, name) })
	}
	return g
}

// canFailOver reports whether the sentinel has found the master, its replica and the other
// sentinels, all of them up.
func (s *Server) canFailOver(ctx context.Context, name string) bool {
	master := redis.NewMapStringStringCmd(ctx, "SENTINEL", "MASTER", name)
	replicas := redis.NewMapStringStringSliceCmd(ctx, "SENTINEL", "REPLICAS", name)
	if s.Client().Process(ctx, master) != nil || s.Client().Process(ctx, replicas) != nil || len(replicas.Val()) != 1 {
		return false
	}
	m, r := master.Val(), replicas.Val()[0]
	return m["flags"] == "master" && m["num-other-sentinels"] == fmt.Sprint(sentinels-1) &&
		r["flags"] == "slave" && r["master-link-status"] == "ok"
}

// Addrs returns the addresses of the sentinels.
func (g *SentinelGroup) Addrs() []string {
	var addrs []string
	for _, s := range g.Sentinels {
		addrs = append(addrs, s.Addr())
	}
	return addrs
}

// Roles returns the master according to the last sentinel, and the other server.
func (g *SentinelGroup) Roles() (master, replica *Server) {
	last := g.Sentinels[len(g.Sentinels)-1]
	last.t.Helper()
	address := redis.NewStringSliceCmd(context.Background(), "SENTINEL", "GET-MASTER-ADDR-BY-NAME", g.name)
	if err := last.Client().Process(context.Background(), address); err != nil {
		last.t.Fatalf("query the address of the master: %v", err)
	}
	if address.Val()[1] == fmt.Sprint(g.servers[1].port) {
		return g.servers[1], g.servers[0]
	}
	return g.servers[0], g.servers[1]
}

// FailOverEmpty kills the master and empties the replica before sentinels promote it: replication
// that has lost everything.
func (g *SentinelGroup) FailOverEmpty() {
	g.setDownAfter(time.Hour)
	master, replica := g.Roles()
	master.Kill()
	replica.do(context.Background(), "CONFIG", "SET", "replica-read-only", "no")
	replica.Flush()
	g.setDownAfter(downAfter)
}

// setDownAfter sets down-after-milliseconds of the running sentinels.
func (g *SentinelGroup) setDownAfter(d time.Duration) {
	for _, s := range g.Sentinels {
		if s.process == nil {
			continue
		}
		s.do(context.Background(), "SENTINEL", "SET", g.name, "down-after-milliseconds", d.Milliseconds())
	}
}
