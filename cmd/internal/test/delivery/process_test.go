package delivery

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"opsgate/cmd/internal/kit/logging/loggingtest"
	"opsgate/cmd/internal/test/processtest"
)

const (
	// maxWait limits every wait.
	maxWait      = 2 * time.Minute
	pollInterval = 5 * time.Millisecond
)

// A process is a running program.
type process struct {
	t      *testing.T
	cmd    *exec.Cmd
	log    loggingtest.Buffer
	exited chan struct{}
}

// launch starts a program with additional variables.
func launch(t *testing.T, name string, variables []string, arguments ...string) *process {
	t.Helper()
	p := &process{t: t, cmd: exec.Command(filepath.Join(programs, name), arguments...), exited: make(chan struct{})}
	p.cmd.Env, p.cmd.Stderr = append(os.Environ(), variables...), &p.log
	must(t, processtest.Start(p.cmd, func(error) { close(p.exited) })) // the state has the result
	return p
}

// record waits for a log record with that message.
func (p *process) record(message string) map[string]any {
	p.t.Helper()
	var found map[string]any
	eventually(p.t, fmt.Sprintf("the program logs %q", message), func() bool {
		if found = recordIn(p.log.String(), message); found != nil {
			return true
		}
		select {
		case <-p.exited:
			p.t.Fatalf("%s has ended:\n%s", p.cmd.Path, p.log.String())
		default:
		}
		return false
	})
	return found
}

// recordIn returns the first record of a log with that message, or nil.
func recordIn(log, message string) (record map[string]any) {
	for text := range strings.Lines(log) {
		if record = nil; json.Unmarshal([]byte(text), &record) == nil && record["msg"] == message {
			return record
		}
	}
	return nil
}

// kill sends SIGKILL and waits for the end.
func (p *process) kill() {
	p.t.Helper()
	must(p.t, p.cmd.Process.Kill())
	<-p.exited
}

// stop sends SIGTERM, and fails the test unless the program exits with 0. With the race detector, it does not after a race.
func (p *process) stop() {
	p.t.Helper()
	_ = p.cmd.Process.Signal(syscall.SIGTERM) // fails if it has exited
	select {
	case <-p.exited:
		if state := p.cmd.ProcessState; !state.Success() {
			p.t.Errorf("%s ended with %v", p.cmd.Path, state)
		}
	case <-time.After(maxWait):
		_ = p.cmd.Process.Kill()
		<-p.exited
		p.t.Errorf("%s does not exit on SIGTERM", p.cmd.Path)
	}
	if p.t.Failed() {
		lines := strings.Split(strings.TrimSpace(p.log.String()), "\n")
		p.t.Logf("end of the log of %s:\n%s", p.cmd.Path, strings.Join(lines[max(0, len(lines)-60):], "\n"))
	}
}

// eventually waits until holds returns true.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	for end := time.Now().Add(maxWait); !holds(); <-tick.C {
		if time.Now().After(end) {
			t.Fatalf("not within %v: %s", maxWait, what)
		}
	}
}
