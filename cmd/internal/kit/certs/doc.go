// Package certs makes the TLS configuration of a listener whose certificate is renewed while the program runs.
//
// The files are read before each handshake; see [tlsfiles.Reloader]. The expiry of the certificate in use is a metric, so that a missing
// renewal is detected before clients fail.
package certs
