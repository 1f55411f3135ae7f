// Package command is the command line of opsgate: the server and the commands of operators.
//
// Results go to standard output, log lines and errors to standard error.
package command
