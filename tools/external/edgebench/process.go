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
	startTimeout = 20 * time.Second // for a process to log its address
	stopTimeout  = 10 * time.Second // for a process to end after SIGTERM
)

// process is a program that the comparison started.
type process struct {
	name    string
	address string
	cmd     *exec.Cmd
}

// start starts a program that writes to a log in dir. If key is not empty, it waits for a JSON line
// of the log with its address under key. When the context ends, the program gets SIGTERM, and
// SIGKILL if it does not end in time.
func start(ctx context.Context, dir, name, key string, argv ...string) (*process, error) {
	log, err := os.Create(filepath.Join(dir, name+".log"))
	if err != nil {
		return nil, err
	}
	defer func() { _ = log.Close() }() // the child has its own handle
	p := &process{name: name, cmd: exec.CommandContext(ctx, argv[0], argv[1:]...)}
	p.cmd.Stdout, p.cmd.Stderr = log, log
	p.cmd.Cancel = func() error { return p.cmd.Process.Signal(syscall.SIGTERM) }
	p.cmd.WaitDelay = stopTimeout
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	for began := time.Now(); key != "" && p.address == ""; <-time.After(20 * time.Millisecond) {
		text, _ := os.ReadFile(log.Name())
		if p.address = field(text, key); p.address == "" && time.Since(began) > startTimeout {
			return nil, fmt.Errorf("%s did not log its address; its log:\n%s", name, text)
		}
	}
	return p, nil
}

// field returns the value of the first JSON line that has a key.
func field(log []byte, key string) string {
	for text := range bytes.Lines(log) {
		var line map[string]any
		_ = json.Unmarshal(text, &line) // fails for a line that is incomplete
		if value, is := line[key].(string); is {
			return value
		}
	}
	return ""
}

// usage returns the CPU time of the process (user and system), and its resident memory in bytes.
func (p *process) usage() (cpu time.Duration, resident int64, err error) {
	proc, err := procfs.NewProc(p.cmd.Process.Pid)
	if err != nil {
		return 0, 0, fmt.Errorf("measure %s: %w", p.name, err)
	}
	stat, err := proc.Stat()
	return time.Duration(stat.CPUTime() * float64(time.Second)), int64(stat.ResidentMemory()), err
}
