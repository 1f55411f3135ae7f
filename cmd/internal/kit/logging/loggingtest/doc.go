// Package loggingtest helps tests to read what a program says while it still runs.
package loggingtest
