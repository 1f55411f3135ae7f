// Package tlsfilestest issues certificates for tests.
package tlsfilestest
