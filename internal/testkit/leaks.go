package testkit

import (
	"fmt"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// leakWait is how long goroutines have to end after the last test: on a busy machine, closed
// connections need longer than the half second of goleak.VerifyTestMain.
const leakWait = 30 * time.Second

// VerifyTestMain is the TestMain of a package: it runs the tests and exits. The tests fail if
// goroutines are left.
func VerifyTestMain(m *testing.M) {
	code := m.Run()
	if code == 0 {
		if err := findLeaks(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

// findLeaks returns an error if goroutines are left for leakWait.
func findLeaks() error {
	for end := time.Now().Add(leakWait); ; {
		if err := goleak.Find(); err == nil || time.Now().After(end) { // it waits between its attempts
			return err
		}
	}
}
