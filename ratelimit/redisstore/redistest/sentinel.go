package redistest

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	sentinels = 3
	// Of three sentinels two have to agree that the master is gone, and so they do with one of them gone as well.
	quorum = 2
	// silence is how long a master may be silent: short, but longer than a busy machine has a living one be.
	silence = time.Second
	// electAgain is half of what passes before sentinels that each voted for itself vote again.
	electAgain = 2 * time.Second
)

// StartSentinel runs a sentinel that knows the server as the master of that name, and decides alone.
func StartSentinel(t testing.TB, name string, master *Server) *Server {
	t.Helper()
	return startSentinel(t, name, fmt.Sprintf("sentinel monitor %s %s %d 1\n", name, host, master.port))
}

func startSentinel(t testing.TB, name, settings string) *Server {
	t.Helper()
	s := newServer(t)
	file := filepath.Join(s.dir, "sentinel.conf") // which a sentinel writes to
	settings = fmt.Sprintf("port %d\nbind %s\ndir %s\n", s.port, host, s.dir) + settings
	if err := os.WriteFile(file, []byte(settings), 0o600); err != nil {
		t.Fatal(err)
	}
	s.args = []string{file, "--sentinel"}
	s.Restart()
	s.await("the sentinel knows the master", func(ctx context.Context) bool {
		return s.Client().Do(ctx, "SENTINEL", "GET-MASTER-ADDR-BY-NAME", name).Err() == nil
	})
	return s
}

// A SentinelGroup is a master and its replica, and three sentinels that make the replica the master when two of them miss the master.
type SentinelGroup struct {
	Sentinels []*Server

	name    string
	servers []*Server
}

// StartSentinelGroup runs a master that the sentinels know by that name, and returns when all of them could replace it.
func StartSentinelGroup(t testing.TB, name string) *SentinelGroup {
	t.Helper()
	master := Start(t, "--repl-diskless-sync-delay", "0")
	replica := Start(t, "--repl-diskless-sync-delay", "0", "--replicaof", fmt.Sprintf("%s %d", host, master.port))
	replica.await("the replica has what the master has", func(ctx context.Context) bool {
		return replica.Client().InfoMap(ctx, "replication").Item("Replication", "master_link_status") == "up"
	})
	w := &SentinelGroup{name: name, servers: []*Server{master, replica}}
	settings := fmt.Sprintf("sentinel monitor %s %s %d %d\nsentinel down-after-milliseconds %[1]s %[5]d\nsentinel failover-timeout %[1]s %[6]d\n",
		name, host, master.port, quorum, silence.Milliseconds(), electAgain.Milliseconds())
	for range sentinels {
		w.Sentinels = append(w.Sentinels, startSentinel(t, name, settings))
	}
	for _, s := range w.Sentinels {
		s.await("the sentinel knows the replica and the other sentinels", func(ctx context.Context) bool { return s.couldReplace(ctx, name) })
	}
	return w
}

// couldReplace says whether the sentinel sees nothing wrong, and knows of everybody that it needs when something is.
func (s *Server) couldReplace(ctx context.Context, name string) bool {
	master := redis.NewMapStringStringCmd(ctx, "SENTINEL", "MASTER", name)
	replicas := redis.NewMapStringStringSliceCmd(ctx, "SENTINEL", "REPLICAS", name)
	if s.Client().Process(ctx, master) != nil || s.Client().Process(ctx, replicas) != nil || len(replicas.Val()) != 1 {
		return false
	}
	m, r := master.Val(), replicas.Val()[0]
	return m["flags"] == "master" && m["num-other-sentinels"] == fmt.Sprint(sentinels-1) &&
		r["flags"] == "slave" && r["master-link-status"] == "ok"
}

// Addrs are where the sentinels listen.
func (w *SentinelGroup) Addrs() []string {
	var addrs []string
	for _, s := range w.Sentinels {
		addrs = append(addrs, s.Addr())
	}
	return addrs
}

// Roles returns who the master is by what the last sentinel says, and who is not.
func (w *SentinelGroup) Roles() (master, replica *Server) {
	last := w.Sentinels[len(w.Sentinels)-1]
	last.t.Helper()
	asked := redis.NewStringSliceCmd(context.Background(), "SENTINEL", "GET-MASTER-ADDR-BY-NAME", w.name)
	if err := last.Client().Process(context.Background(), asked); err != nil {
		last.t.Fatalf("asking a sentinel: %v", err)
	}
	if asked.Val()[1] == fmt.Sprint(w.servers[1].port) {
		return w.servers[1], w.servers[0]
	}
	return w.servers[0], w.servers[1]
}

// FailOverEmpty kills the master, empties the replica, and only then has the sentinels look: what replication loses, at its worst.
func (w *SentinelGroup) FailOverEmpty() {
	w.bear(time.Hour)
	master, replica := w.Roles()
	master.Kill()
	replica.do(context.Background(), "CONFIG", "SET", "replica-read-only", "no")
	replica.Flush()
	w.bear(silence)
}

// bear sets how long the master may be silent.
func (w *SentinelGroup) bear(silence time.Duration) {
	for _, s := range w.Sentinels {
		if s.process == nil {
			continue
		}
		s.do(context.Background(), "SENTINEL", "SET", w.name, "down-after-milliseconds", silence.Milliseconds())
	}
}
