// Package commandline parses and runs the command line of a program, and adds the commands that every program has: version, completion and
// man. Completion and the manual page are generated from the model of the parser, so they match the commands and flags.
//
// The shell scripts have no list of commands: they call the hidden command __complete for the candidates.
package commandline
