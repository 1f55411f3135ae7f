//go:build race

package chaostest

// raceFlag has the programs watched too when the tests are.
var raceFlag = []string{"-race"}
