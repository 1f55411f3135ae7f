package deploytest

import (
	"fmt"
	"math/rand/v2"
	"net"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"
)

// freePort returns a free port below the range of ephemeral ports, so that no connection gets it before the program binds it.
func freePort(t *testing.T) string {
	t.Helper()
	for range 100 {
		port := strconv.Itoa(10_000 + rand.N(20_000))
		if listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:"+port); err == nil {
			_ = listener.Close()
			return port
		}
	}
	t.Fatal("none of a hundred ports is free")
	return ""
}

// goList returns the folders of the product's packages, relative to the root.
func goList(t *testing.T, args ...string) ([]string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", append([]string{"list", "-f", "{{if not .Standard}}{{.ImportPath}}{{end}}"}, args...)...)
	cmd.Dir = root
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	var folders []string
	for line := range strings.Lines(string(out)) {
		if folder, ours := strings.CutPrefix(strings.TrimSpace(line), "opsgate/"); ours {
			folders = append(folders, folder)
		}
	}
	return folders, nil
}

// must ends a test that got an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// patience limits each wait.
const patience = 5 * time.Minute

// await waits until is returns true.
func await(t *testing.T, is func() bool) {
	t.Helper()
	limit := time.After(patience)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !is() {
		select {
		case <-limit:
			t.Fatal("timeout")
		case <-tick.C:
		}
	}
}
