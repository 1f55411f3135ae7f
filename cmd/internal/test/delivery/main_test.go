package delivery

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"opsgate/backendclient/testkit"
)

const maxWait = testkit.MaxWait

// programs is the directory of the built programs.
var programs string

func TestMain(m *testing.M) {
	os.Exit(testkit.Run(func(dir string) int {
		programs = dir
		return m.Run()
	}, "opsbackend", "opsgate"))
}

// launch starts a program with additional variables, until the end of the test.
func launch(t *testing.T, name string, variables []string, arguments ...string) *testkit.Process {
	t.Helper()
	command := exec.Command(filepath.Join(programs, name), arguments...)
	command.Env = append(os.Environ(), variables...)
	return testkit.Start(t, command)
}
