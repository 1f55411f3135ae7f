package chaostest

import (
	"encoding/json"
	"fmt"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"opsgate/cmd/internal/logging/loggingtest"
)

const (
	// maxWait is how long a program may take to do what it is asked.
	maxWait = time.Minute
	// pollInterval is how often it is asked whether it has.
	pollInterval = 5 * time.Millisecond
)

// A process is a program that a test started, and that ends with it.
type process struct {
	name   string
	cmd    *exec.Cmd
	log    loggingtest.Buffer
	exited chan struct{}
	err    error // how it ended; to be read when it has
	killed bool  // by a test, which it may
}

// launch runs a program from a thread of its own: the kernel kills the program when the thread that started it ends, which is how
// tests that are killed leave none behind.
func launch(name string, args ...string) (*process, error) {
	return launchCommand(name, exec.Command(program(name), args...))
}

func launchCommand(name string, cmd *exec.Cmd) (*process, error) {
	p := &process{name: name, cmd: cmd, exited: make(chan struct{})}
	p.cmd.Stderr, p.cmd.SysProcAttr = &p.log, endsWithParent()
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer close(p.exited)
		err := p.cmd.Start()
		started <- err
		if err == nil {
			p.err = p.cmd.Wait()
		}
	}()
	return p, <-started
}

// start runs a program for one test.
func start(t *testing.T, name string, args ...string) *process {
	t.Helper()
	p, err := launch(name, args...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.end(t)
		if t.Failed() {
			t.Logf("log of %s:\n%s", name, withoutAccess(p.log.String()))
		}
	})
	return p
}

// end stops the program and fails the test where it does not end well. It may be called again.
func (p *process) end(t *testing.T) {
	t.Helper()
	if err := p.stop(); err != nil {
		t.Error(err)
	}
}

// stop has the program end in order, with all that it has to write. One that was watched for races and had any ends badly.
func (p *process) stop() error {
	_ = p.cmd.Process.Signal(syscall.SIGTERM) // it may have ended
	select {
	case <-p.exited:
		if p.err != nil && !p.killed {
			return fmt.Errorf("%s ended badly: %w", p.name, p.err)
		}
		return nil
	case <-time.After(maxWait):
		_ = p.cmd.Process.Kill()
		<-p.exited
		return fmt.Errorf("%s does not end when it is told to", p.name)
	}
}

// kill ends the program with no time to end anything itself.
func (p *process) kill(t *testing.T) {
	t.Helper()
	p.killed = true
	if err := p.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-p.exited
}

// freeze has the program do nothing until it is thawed. Its connections stay, and the kernel takes more of them for it.
func (p *process) freeze(t *testing.T) {
	t.Helper()
	p.signal(t, syscall.SIGSTOP)
}

func (p *process) thaw(t *testing.T) {
	t.Helper()
	p.signal(t, syscall.SIGCONT)
}

func (p *process) signal(t *testing.T, s syscall.Signal) {
	t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		t.Fatal(err)
	}
}

func withoutAccess(log string) string {
	var kept strings.Builder
	for line := range strings.Lines(log) {
		if !strings.Contains(line, `"msg":"request"`) {
			kept.WriteString(line)
		}
	}
	return kept.String()
}

// line returns the first line of the log with that message, and waits for it.
func (p *process) line(message string) (map[string]any, error) {
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	for end := time.Now().Add(maxWait); time.Now().Before(end); <-tick.C {
		for text := range strings.Lines(p.log.String()) {
			var line map[string]any
			if json.Unmarshal([]byte(text), &line) == nil && line["msg"] == message {
				return line, nil
			}
		}
		select {
		case <-p.exited:
			return nil, fmt.Errorf("%s ended: %w", p.name, p.err)
		default:
		}
	}
	return nil, fmt.Errorf("%s has not said %q for %v", p.name, message, maxWait)
}

// eventually waits until something holds, and returns how long that took.
func eventually(t *testing.T, what string, holds func() bool) time.Duration {
	t.Helper()
	begun := time.Now()
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	for !holds() {
		if time.Since(begun) > maxWait {
			t.Fatalf("not within %v: %s", maxWait, what)
		}
		<-tick.C
	}
	return time.Since(begun)
}

// pass lets time go by.
func sleep(t *testing.T, d time.Duration) {
	t.Helper()
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-t.Context().Done():
	}
}
