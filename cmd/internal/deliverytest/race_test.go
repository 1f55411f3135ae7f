//go:build race

package deliverytest

// raceFlag builds the programs with the race detector if the tests have it.
var raceFlag = []string{"-race"}
