// Package chaos starts gateways and their dependencies as processes, breaks the dependencies, and
// checks the guarantees in the tables of docs/operate/guarantees.md and security.md, row by row. A
// group of rows has one system, which is started once: each row has a load, what happens in its
// phases, and what must hold. The documents name the test of each row.
//
// The tests have two forms. The short form is part of all tests: it checks every guarantee to
// clients, and bounds on time loosely. The full form (make chaos) lasts as long as the table
// states, checks every bound, and prints each measured value with its bound.
package chaos
