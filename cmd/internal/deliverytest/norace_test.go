//go:build !race

package deliverytest

var raceFlag []string
