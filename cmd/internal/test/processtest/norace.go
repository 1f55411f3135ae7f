//go:build !race

package processtest

// Race reports whether the tests, and so the programs of [Build], have the race detector.
const Race = false
