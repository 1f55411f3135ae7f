// Package buildinfo describes the running build for the version commands, the metrics and the user
// agent of internal calls.
package buildinfo
