package delivery

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"opsgate/backendclient/testkit"
)

const maxWait = testkit.MaxWait

// awaitMessages waits until count returns n. A hundred further messages have to arrive within maxWait, so that a busy machine may deliver
// thousands in a longer time.
func awaitMessages(t *testing.T, n int, count func() int) {
	t.Helper()
	const step = 100
	for have := count(); have < n; have = count() {
		next := min(have+step, n)
		testkit.Eventually(t, fmt.Sprintf("%d of %d messages arrive", next, n), func() bool { return count() >= next })
	}
}

// programs is the directory of the built programs.
var programs string

func TestMain(m *testing.M) {
	os.Exit(testkit.Run(func(dir string) int {
		programs = dir
		return m.Run()
	}, "opsbackend"))
}

// launch starts a program with additional variables, until the end of the test.
func launch(t *testing.T, name string, variables []string, arguments ...string) *testkit.Process {
	t.Helper()
	command := exec.Command(filepath.Join(programs, name), arguments...)
	command.Env = append(os.Environ(), variables...)
	return testkit.Start(t, command)
}
