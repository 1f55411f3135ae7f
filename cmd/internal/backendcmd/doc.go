// Package backendcmd is the command line of opsbackend: it serves the reference backend and manages its teams and API tokens.
//
// Results go to standard output, and everything else to standard error. A token is printed once, when it is created; only its hash is
// stored.
package backendcmd
