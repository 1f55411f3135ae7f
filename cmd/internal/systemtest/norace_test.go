//go:build !race

package systemtest

var raceFlag []string
