package commandline

import (
	"github.com/alecthomas/kong"
)

// Commands are to be embedded in the grammar of a program, which binds an About.
type Commands struct {
	Completion completion `cmd:"" help:"Print a script by which bash, zsh or fish completes what is typed after the program's name."`
	Man        manual     `cmd:"" help:"Print the manual page."`
	Complete   complete   `cmd:"" hidden:"" name:"__complete" help:"Print what the last of the words may become."`
}

// An About is what a manual page says of a program beyond its commands.
type About struct {
	Version string
	Date    string // of the build, as 2026-01-31; "" where that is unknown
	// Sections follow the commands.
	Sections []Section
}

// A Section of a manual page is a text, or a list of things and what each of them is.
type Section struct {
	Title string
	Text  string
	Items []Item
}

// An Item is a thing and what it is.
type Item struct{ Term, Text string }

// root returns the program.
func root(k *kong.Context) *kong.Node { return k.Model.Node }
