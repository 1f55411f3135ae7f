package monitortest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"opsgate/backendclient/testkit"
)

// root is the root of the repository.
const root = "../.."

// programs is the folder of opsgate and opsbackend.
var programs string

func TestMain(m *testing.M) { os.Exit(buildAndRun(m)) }

// buildAndRun builds the programs with the flags of releases: then the build cache has most of them, because other tests use these flags.
func buildAndRun(m *testing.M) int {
	var err error
	if programs, err = os.MkdirTemp("", "monitortest-"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(programs) }()
	build := exec.Command("sh", "-c", `CGO_ENABLED=0 go build $(cat deploy/build-flags) -buildvcs=false -ldflags="-s -w" -o "$0/" ./cmd/opsgate ./cmd/opsbackend`, programs)
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "build the programs: %v\n%s", err, out)
		return 1
	}
	return m.Run()
}

// start starts a program of the repository, and returns its record of the addresses that it serves.
func start(t *testing.T, program string, args ...string) (*testkit.Process, map[string]any) {
	t.Helper()
	p := testkit.Start(t, exec.Command(filepath.Join(programs, program), append([]string{"serve"}, args...)...))
	return p, p.MustRecord(t, "serving")
}

func read(t *testing.T, path string) string {
	t.Helper()
	content, err := os.ReadFile(path)
	testkit.Must(t, err)
	return string(content)
}

func write(t *testing.T, path, content string) {
	t.Helper()
	testkit.Must(t, os.WriteFile(path, []byte(content), 0o600))
}

// files returns the paths in deploy that match a pattern. It fails the test without a match.
func files(t *testing.T, pattern string) []string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(root, "deploy", pattern))
	testkit.Must(t, err)
	if len(paths) == 0 {
		t.Fatalf("there is no %s", pattern)
	}
	return paths
}
