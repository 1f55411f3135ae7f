// Package certs makes TLS configurations, of listeners and of clients, from PEM files that are
// renewed while the program runs.
//
// A [Reloader] reads the files before each connection, so that a renewed certificate needs neither
// a restart nor a reload. If the files cannot be read or do not fit together, for instance while
// one of two is already replaced, it logs that once and keeps the last valid configuration.
// Connections wait for a file system that hangs once, for [filereader.Timeout], and then use that
// configuration at once. The expiry of the certificate in use is a metric, so that a missing
// renewal is detected before clients fail.
package certs
