package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/prometheus/procfs"
)

const (
	startTimeout = 20 * time.Second      // for a process to log its address
	stopTimeout  = 10 * time.Second      // for a process to end after SIGTERM
	pollEvery    = 20 * time.Millisecond // interval of reading a log
)

// process is a program that the comparison started.
type process struct {
	name   string
	cmd    *exec.Cmd
	cancel func()        // begins to stop it
	log    string        // path of the log
	done   chan struct{} // closed when the process has ended
	err    error         // its result; valid when done is closed
}

// start starts a program that writes to a log in dir.
func start(ctx context.Context, dir, name string, argv ...string) (*process, error) {
	p := &process{name: name, log: filepath.Join(dir, name+".log"), done: make(chan struct{})}
	log, err := os.Create(p.log)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	defer func() { _ = log.Close() }() // the child has its own handle
	ctx, p.cancel = context.WithCancel(ctx)
	p.cmd = exec.CommandContext(ctx, argv[0], argv[1:]...)
	p.cmd.Stdout, p.cmd.Stderr = log, log
	p.cmd.Cancel = func() error { return p.cmd.Process.Signal(syscall.SIGTERM) }
	p.cmd.WaitDelay = stopTimeout
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	go func() {
		p.err = p.cmd.Wait()
		close(p.done)
	}()
	return p, nil
}

// stop sends SIGTERM, and SIGKILL if the process does not end in time.
func (p *process) stop() {
	p.cancel()
	<-p.done
}

// logLine waits for the first JSON object in the log that has a key, and returns it.
func (p *process) logLine(ctx context.Context, key string) (map[string]any, error) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		if line := lineWith(p.log, key); line != nil {
			return line, nil
		}
		select {
		case <-p.done:
			return nil, fmt.Errorf("%s ended before it logged its address (%w); its log:\n%s", p.name, p.err, tail(p.log))
		case <-ctx.Done():
			return nil, fmt.Errorf("%s did not log its address in time (%w); its log:\n%s", p.name, ctx.Err(), tail(p.log))
		case <-tick.C:
		}
	}
}

// lineWith returns the first JSON object in a file that has a key, or nil.
func lineWith(path, key string) map[string]any {
	log, _ := os.ReadFile(path)
	for text := range bytes.Lines(log) {
		var line map[string]any
		_ = json.Unmarshal(text, &line) // fails for what is not a log line, or incomplete
		if line[key] != nil {
			return line
		}
	}
	return nil
}

// tail returns the end of a file, for an error message.
func tail(path string) string {
	const limit = 2000
	b, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	return string(b[max(0, len(b)-limit):])
}

// cpu returns the used CPU time of the process, user and system.
func (p *process) cpu() (time.Duration, error) {
	stat, err := p.stat()
	return time.Duration(stat.CPUTime() * float64(time.Second)), err
}

// resident returns the resident memory of the process in bytes.
func (p *process) resident() (int64, error) {
	stat, err := p.stat()
	return int64(stat.ResidentMemory()), err
}

func (p *process) stat() (procfs.ProcStat, error) {
	proc, err := procfs.NewProc(p.cmd.Process.Pid)
	if err != nil {
		return procfs.ProcStat{}, fmt.Errorf("measure %s: %w", p.name, err)
	}
	return proc.Stat()
}
