//go:build !race

package chaostest

var raceFlag []string
