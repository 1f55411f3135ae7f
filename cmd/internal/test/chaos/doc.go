// Package chaos starts gateways and their dependencies as processes, breaks the dependencies, and checks the guarantees in the
// table of docs/operate/limits.md, row by row.
//
// The tests have two forms. The short form is part of all tests: it checks every guarantee to clients, and bounds on time loosely. The
// full form (make chaos) lasts as long as the table states, checks every bound, and prints each measured value with its bound.
package chaos
