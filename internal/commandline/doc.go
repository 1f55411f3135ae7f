// Package commandline runs the command line of a program: cobra with exit codes, short errors,
// suggestions for mistyped commands and flags, and the commands that every program has.
//
// Nothing here sets a template of cobra: that would link text/template, which finds methods by
// name, and the linker would then keep every exported method of the program.
package commandline
