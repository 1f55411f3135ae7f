// Package certs provides the TLS configuration of a listener and reloads it when its files change.
//
// Each handshake compares the files with those that were read last, so a renewed certificate needs neither a restart nor a signal. Files that
// cannot be read or do not match each other, for example while only one of two is replaced, are logged once; the last valid ones stay in use.
// A metric reports when the certificate in use expires, so that a missing renewal is detected before it fails.
package certs
