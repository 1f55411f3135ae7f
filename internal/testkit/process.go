package testkit

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Run builds programs, by their names in cmd, for the tests of a package, runs the tests, and
// returns their exit code. The tests are given the directory of the programs, which is removed
// afterwards.
func Run(tests func(dir string) int, programs ...string) int {
	return RunBuilt(func(dir string) error { return build(dir, programs) }, tests)
}

// RunBuilt is Run for programs that are built in another way.
func RunBuilt(build func(dir string) error, tests func(dir string) int) int {
	dir, err := os.MkdirTemp("", "test")
	if err == nil {
		defer func() { _ = os.RemoveAll(dir) }()
		err = build(dir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return tests(dir)
}

// build builds programs, without what only debuggers need: they are linked in half the time. They
// have the race detector if the tests have it.
func build(dir string, programs []string) error {
	arguments := []string{"build", "-ldflags=-s -w", "-o", dir + string(filepath.Separator)}
	if Race {
		arguments = append(arguments, "-race")
	}
	for _, program := range programs {
		arguments = append(arguments, "opsgate/cmd/"+program)
	}
	command := exec.Command("go", arguments...)
	command.Stderr = os.Stderr
	if err := command.Run(); err != nil {
		return fmt.Errorf("build the programs: %w", err)
	}
	return nil
}

// Find returns the path of a program that is in PATH, or the absolute path of a file or folder that
// make test-packages installs. Without it the test is skipped, or fails in CI. t is the test that
// calls Find, and not its parent, which a subtest cannot skip.
func Find(t testing.TB, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if strings.Contains(name, "/") {
		if path, err = filepath.Abs(name); err == nil {
			_, err = os.Stat(path)
		}
	}
	switch {
	case err == nil:
	case os.Getenv("CI") != "":
		t.Fatalf("%s is needed: %v", name, err)
	default:
		SkipWithout(t, name, "make test-programs test-packages")
	}
	return path
}

// Output runs a command and returns its standard output. A command that fails ends the test.
func Output(t testing.TB, command *exec.Cmd) string {
	t.Helper()
	var stderr strings.Builder
	command.Stderr = &stderr
	stdout, err := command.Output()
	if err != nil {
		t.Fatalf("%v: %v\n%s%s", command.Args, err, stdout, &stderr)
	}
	return string(stdout)
}

// A Process is a program that a test started.
type Process struct {
	Cmd    *exec.Cmd
	Log    Buffer        // standard error
	Exited chan struct{} // closed when it has exited

	err     error // result of Wait; read after Exited is closed
	mayFail bool
}

// Launch starts a command. The kernel kills its process when this one ends, so that killed tests
// leave no processes.
func Launch(command *exec.Cmd) (*Process, error) {
	p := &Process{Cmd: command, Exited: make(chan struct{})}
	command.Stderr, command.SysProcAttr = &p.Log, endsWithParent()
	started := make(chan error)
	go func() { // the kernel kills the process when the thread that started it ends
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := command.Start()
		started <- err
		if err == nil {
			p.err = command.Wait()
			close(p.Exited)
		}
	}()
	return p, <-started
}

// Start starts a command for one test, which stops it at its end and fails if it exits with an
// error. A test that fails shows the log of the command without its requests.
func Start(t testing.TB, command *exec.Cmd) *Process {
	t.Helper()
	p, err := Launch(command)
	Must(t, err)
	t.Cleanup(func() {
		p.End(t)
		if t.Failed() {
			t.Logf("log of %s:\n%s", p.name(), p.withoutRequests())
		}
	})
	return p
}

func (p *Process) name() string { return filepath.Base(p.Cmd.Path) }

func (p *Process) withoutRequests() string {
	var kept strings.Builder
	for line := range strings.Lines(p.Log.String()) {
		if !strings.Contains(line, `"msg":"request"`) {
			kept.WriteString(line)
		}
	}
	return kept.String()
}

// MayFail ignores the result of the process from now on.
func (p *Process) MayFail() { p.mayFail = true }

// End is Stop for a test. It may be called more than once.
func (p *Process) End(t testing.TB) {
	t.Helper()
	if err := p.Stop(); err != nil {
		t.Error(err)
	}
}

// Stop sends SIGTERM, waits for the exit, and returns an error if the process failed. It does after
// a race that the race detector found.
func (p *Process) Stop() error {
	_ = p.Cmd.Process.Signal(syscall.SIGTERM) // fails if it has exited
	err := p.Wait()
	if err != nil && !p.mayFail {
		return fmt.Errorf("%s failed: %w", p.name(), err)
	}
	return nil
}

// Wait waits for the exit, and returns an error if the process failed or had to be killed.
func (p *Process) Wait() error {
	select {
	case <-p.Exited:
		return p.err
	case <-time.After(MaxWait):
		_ = p.Cmd.Process.Kill()
		<-p.Exited
		return fmt.Errorf("it has not exited within %v", MaxWait)
	}
}

// Kill sends SIGKILL and waits for the exit. The process may have exited already.
func (p *Process) Kill() {
	p.MayFail()
	_ = p.Cmd.Process.Kill()
	<-p.Exited
}

// Freeze stops the process until Thaw. Its connections stay open, and the kernel accepts new ones.
func (p *Process) Freeze(t *testing.T) {
	t.Helper()
	p.Signal(t, syscall.SIGSTOP)
}

// Thaw ends Freeze.
func (p *Process) Thaw(t *testing.T) {
	t.Helper()
	p.Signal(t, syscall.SIGCONT)
}

// Signal sends a signal.
func (p *Process) Signal(t testing.TB, s syscall.Signal) {
	t.Helper()
	Must(t, p.Cmd.Process.Signal(s))
}

// Record waits for a log record with that message, and returns its attributes.
func (p *Process) Record(message string) (map[string]any, error) {
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	for end := time.Now().Add(MaxWait); time.Now().Before(end); <-tick.C {
		if record := RecordIn(p.Log.String(), message); record != nil {
			return record, nil
		}
		select {
		case <-p.Exited:
			return nil, fmt.Errorf("%s exited: %w\n%s", p.name(), p.err, p.withoutRequests())
		default:
		}
	}
	return nil, fmt.Errorf("%s has not logged %q for %v\n%s", p.name(), message, MaxWait, p.withoutRequests())
}

// MustRecord is Record for a test.
func (p *Process) MustRecord(t testing.TB, message string) map[string]any {
	t.Helper()
	record, err := p.Record(message)
	Must(t, err)
	return record
}

// RecordIn returns the first record of a log with that message, or nil.
func RecordIn(log, message string) map[string]any {
	for text := range strings.Lines(log) {
		var record map[string]any
		if json.Unmarshal([]byte(text), &record) == nil && record["msg"] == message {
			return record
		}
	}
	return nil
}
