// Package certs is the TLS of a listener whose certificate is renewed while the gateway runs.
//
// The files are looked at for each handshake, so a renewed certificate needs neither a restart nor a word to the gateway. What
// cannot be read, or does not fit together, as while one of two files is replaced already, is told once; until it can, the last
// good ones stay in use. When the certificate in use will expire is a metric, so that a renewal that never came is noticed before
// clients notice it.
package certs
