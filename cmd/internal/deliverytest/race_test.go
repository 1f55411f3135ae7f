//go:build race

package deliverytest

// raceFlag builds the programs with the race detector if the tests have it.
var raceFlag = []string{"-race"}

// raceMemory is by how much the detector multiplies the memory of programs, at most.
const raceMemory = 10
