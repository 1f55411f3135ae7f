// Package gatewaycmd is the command line of opsgate: serving, and what operators do around it.
//
// Results go to standard output, log lines and errors to standard error.
package gatewaycmd
