package redistest

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// StartSentinel runs a sentinel that knows the server as the master of that name.
func StartSentinel(t testing.TB, name string, master *Server) *Server {
	t.Helper()
	s := newServer(t)
	file := filepath.Join(s.dir, "sentinel.conf") // which a sentinel writes to
	settings := fmt.Sprintf("port %d\nbind %s\ndir %s\nsentinel monitor %s %s %d 1\n", s.port, host, s.dir, name, host, master.port)
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
