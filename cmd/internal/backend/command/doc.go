// Package command is the command line of opsbackend: it serves the reference backend and manages
// its teams, API tokens, subscribers and deliveries.
//
// Results go to standard output, and everything else to standard error. A token or the secret of a
// webhook is printed once, when it is created; of a token, only the hash is stored.
package command

//go:generate go test -count=1 -run EveryRegisteredMetric -update
