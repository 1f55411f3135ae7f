// Package tlsfilestest has certificates for tests of both sides of a connection.
package tlsfilestest
