// Package buildinfo says which build of a program is running: for the version commands, the metrics, and the user agent
// that the internal services see.
package buildinfo
