//go:build !race

package testkit

// Race reports whether the tests, and so the programs of [Run], have the race detector.
const Race = false
