// Package tlsfiles is the TLS of a client, from files that are renewed while it runs.
//
// The files are read for each connection that is made, so a renewed certificate needs neither a restart nor a word to the gateway.
// What cannot be read, or does not fit together, as while one of two files is replaced already, is told once; until it can, the
// last good ones stay in use.
//
// It knows nothing of what the connections are to, so that everything with TLS of its own can use it.
package tlsfiles
