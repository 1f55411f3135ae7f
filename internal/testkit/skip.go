package testkit

import "testing"

// Tests are skipped by the functions in this file alone, because tools/fresh.sh accepts the
// messages of no others.

// SkipWithout skips a test that needs what this machine lacks, and how to have it, or why it is
// needed.
func SkipWithout(t testing.TB, need, how string) {
	t.Helper()
	t.Skipf("needs %s: %s", need, how)
}

// SkipIfShort skips a long test with go test -short.
func SkipIfShort(t testing.TB) {
	t.Helper()
	if testing.Short() {
		SkipLong(t, "make test-all")
	}
}

// SkipLong skips a test that takes too long for this run, and names the target that runs it.
func SkipLong(t testing.TB, target string) {
	t.Helper()
	t.Skipf("takes long: %s runs it", target)
}
