package chaos

import (
	"os/exec"
	"testing"
	"time"

	"opsgate/cmd/internal/test/testkit"
)

const maxWait = testkit.MaxWait

// launch runs a program.
func launch(name string, args ...string) (*testkit.Process, error) {
	return testkit.Launch(exec.Command(program(name), args...))
}

// start runs a program for one test.
func start(t testing.TB, name string, args ...string) *testkit.Process {
	t.Helper()
	return testkit.Start(t, exec.Command(program(name), args...))
}

func eventually(t testing.TB, what string, holds func() bool) time.Duration {
	t.Helper()
	return testkit.Eventually(t, what, holds)
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

// must ends a test that got an error.
func must(t testing.TB, err error) {
	t.Helper()
	testkit.Must(t, err)
}
