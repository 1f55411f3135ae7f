// Package commandline runs a program's command line, and gives it what every program has: its version, and two commands that speak of all
// others: completion, for shells, and man, for people. Both read the model that kong parses by, so they cannot say anything else than the
// program does.
//
// The scripts for shells know nothing of the program: they ask it, by a hidden command, what the words on the line may become.
package commandline
