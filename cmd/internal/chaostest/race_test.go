//go:build race

package chaostest

// raceFlag builds the programs with the race detector if the tests have it.
var raceFlag = []string{"-race"}
