// Package backendcmd is the command line of opsbackend: serving the reference backend, and looking after the teams and API
// tokens in its data.
//
// Results go to standard output, everything else to standard error, so that a script can read what it asked for. A token is
// printed once, when it is made, and is kept as a hash.
package backendcmd
