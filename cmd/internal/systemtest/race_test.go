//go:build race

package systemtest

// raceFlag has the programs watched too when the tests are.
var raceFlag = []string{"-race"}
