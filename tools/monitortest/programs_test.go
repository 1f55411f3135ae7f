package monitortest

import (
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

func TestMain(m *testing.M) {
	os.Exit(testkit.RunBuilt(build, func(dir string) int {
		programs = dir
		return m.Run()
	}))
}

// build builds the programs with the flags of releases: then the build cache has most of them, because other tests use these flags.
func build(dir string) error {
	command := exec.Command("sh", "-c", `CGO_ENABLED=0 go build $(cat deploy/build-flags) -buildvcs=false -ldflags="-s -w" -o "$0/" ./cmd/opsgate ./cmd/opsbackend`, dir)
	command.Dir, command.Stderr = root, os.Stderr
	return command.Run()
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
