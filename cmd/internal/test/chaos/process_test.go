package chaos

import (
	"encoding/json"
	"fmt"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"opsgate/cmd/internal/kit/logging/loggingtest"
	"opsgate/cmd/internal/test/processtest"
)

const (
	// maxWait is the maximum time to wait for anything.
	maxWait = time.Minute
	// pollInterval is the interval of polling.
	pollInterval = 5 * time.Millisecond
)

// process is a program that a test started. It is stopped at the end of the test.
type process struct {
	name   string
	cmd    *exec.Cmd
	log    loggingtest.Buffer
	exited chan struct{}
	err    error // result of Wait; read after exited is closed
	killed bool  // by a test; its exit status is ignored
}

// launch runs a program.
func launch(name string, args ...string) (*process, error) {
	return launchCommand(name, exec.Command(program(name), args...))
}

func launchCommand(name string, cmd *exec.Cmd) (*process, error) {
	p := &process{name: name, cmd: cmd, exited: make(chan struct{})}
	p.cmd.Stderr = &p.log
	return p, processtest.Start(cmd, func(err error) {
		p.err = err
		close(p.exited)
	})
}

// start runs a program for one test.
func start(t *testing.T, name string, args ...string) *process {
	t.Helper()
	return startCommand(t, name, exec.Command(program(name), args...))
}

// startCommand runs a command of a program for one test.
func startCommand(t *testing.T, name string, cmd *exec.Cmd) *process {
	t.Helper()
	p, err := launchCommand(name, cmd)
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

// end stops the program, and fails the test if it exits with an error. It can be called more than once.
func (p *process) end(t *testing.T) {
	t.Helper()
	if err := p.stop(); err != nil {
		t.Error(err)
	}
}

// stop sends SIGTERM and waits for the exit. A program with the race detector exits with an error after a race.
func (p *process) stop() error {
	_ = p.cmd.Process.Signal(syscall.SIGTERM) // fails if it has exited
	select {
	case <-p.exited:
		if p.err != nil && !p.killed {
			return fmt.Errorf("%s failed: %w", p.name, p.err)
		}
		return nil
	case <-time.After(maxWait):
		_ = p.cmd.Process.Kill()
		<-p.exited
		return fmt.Errorf("%s does not exit on SIGTERM", p.name)
	}
}

// kill sends SIGKILL.
func (p *process) kill(t *testing.T) {
	t.Helper()
	p.killed = true
	if err := p.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-p.exited
}

// freeze stops the program until thaw. Its connections stay open, and the kernel accepts new ones.
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

// line waits for a log line with that message and returns it.
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
			return nil, fmt.Errorf("%s exited: %w", p.name, p.err)
		default:
		}
	}
	return nil, fmt.Errorf("%s has not logged %q for %v", p.name, message, maxWait)
}

// eventually waits until holds returns true, and returns the time that it waited.
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

// sleep waits for d or the end of the test.
func sleep(t *testing.T, d time.Duration) {
	t.Helper()
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-t.Context().Done():
	}
}
