//go:build !race

package deliverytest

var raceFlag []string

const raceMemory = 1
