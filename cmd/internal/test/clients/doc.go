// Package clients tests that clients in four languages can be generated from the API description
// that opsdev serves, and that they work: each runs a program that calls each kind of operation,
// reads all pages, repeats refused requests and decodes errors. docs/integrate/clients.md is for
// integrators.
package clients
