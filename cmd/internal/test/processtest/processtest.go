// Package processtest builds the programs of this repository, and starts them as processes of a test.
package processtest

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
)

// Build builds programs, by their names in cmd, into a directory. They have the race detector if the tests have it.
func Build(dir string, programs ...string) error {
	arguments := []string{"build", "-o", dir}
	if Race {
		arguments = append(arguments, "-race")
	}
	for _, program := range programs {
		arguments = append(arguments, "opsgate/cmd/"+program)
	}
	build := exec.Command("go", arguments...)
	build.Stderr = os.Stderr
	if err := build.Run(); err != nil {
		return fmt.Errorf("build the programs: %w", err)
	}
	return nil
}

// Start starts a command and calls ended with the result of its Wait. It starts the command from its own thread: the kernel kills the
// command when that thread ends, so that killed tests leave no processes. If Start returns an error, it does not call ended.
func Start(cmd *exec.Cmd, ended func(error)) error {
	cmd.SysProcAttr = endsWithParent()
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			ended(cmd.Wait())
		}
	}()
	return <-started
}
