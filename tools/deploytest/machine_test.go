package deploytest

import (
	"fmt"
	"net"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// freePort returns a free port.
func freePort(t *testing.T) string {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	_, port, err := net.SplitHostPort(listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return port
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

// await waits until is returns true.
func await(t *testing.T, is func() bool) {
	t.Helper()
	limit := time.After(time.Minute)
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
