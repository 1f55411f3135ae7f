package monitortest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// root is the root of the repository.
const root = "../.."

// need returns the path of a program. Without it the test is skipped, or fails in CI.
func need(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	switch {
	case err == nil:
	case os.Getenv("CI") != "":
		t.Fatalf("%s is needed: %v", name, err)
	default:
		t.Skipf("%s is not installed", name)
	}
	return path
}

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

// process is a process that is killed at the end of the test.
type process struct {
	cmd  *exec.Cmd
	done chan struct{}
}

func start(t *testing.T, path string, args ...string) *process {
	t.Helper()
	log, err := os.Create(filepath.Join(t.TempDir(), filepath.Base(path)+".log"))
	must(t, err)
	p := &process{cmd: exec.Command(path, args...), done: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = log, log
	must(t, p.cmd.Start())
	go func() {
		defer close(p.done)
		_ = p.cmd.Wait()
	}()
	t.Cleanup(func() {
		p.kill()
		if t.Failed() {
			t.Logf("output of %s:\n%s", path, read(t, log.Name()))
		}
		_ = log.Close()
	})
	return p
}

// kill kills the process and waits for its exit.
func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	<-p.done
}

// await waits until is returns true.
func await(t *testing.T, what string, is func() bool) {
	t.Helper()
	limit := time.After(time.Minute)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !is() {
		select {
		case <-limit:
			t.Fatalf("timeout: %s", what)
		case <-tick.C:
		}
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	content, err := os.ReadFile(path)
	must(t, err)
	return string(content)
}

func write(t *testing.T, path, content string) {
	t.Helper()
	must(t, os.WriteFile(path, []byte(content), 0o600))
}

// files returns the paths in deploy that match a pattern. It fails the test without a match.
func files(t *testing.T, pattern string) []string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(root, "deploy", pattern))
	must(t, err)
	if len(paths) == 0 {
		t.Fatalf("there is no %s", pattern)
	}
	return paths
}
