package commandline

import (
	"fmt"

	"github.com/alecthomas/kong"

	"opsgate/cmd/internal/buildinfo"
)

// Commands are to be embedded in the grammar of a program, which binds an About.
type Commands struct {
	Version    version    `cmd:"" help:"Print the version."`
	Completion completion `cmd:"" help:"Print a script by which bash, zsh or fish completes what is typed after the program's name."`
	Man        manual     `cmd:"" help:"Print the manual page."`
	Complete   complete   `cmd:"" hidden:"" name:"__complete" help:"Print what the last of the words may become."`

	AsVersion versionFlag `name:"version" help:"Print the version."`
}

// An About is what there is to say of a program beyond its commands.
type About struct {
	Build buildinfo.Info
	// Sections follow the commands in the manual page.
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

type version struct{}

// Run prints the program's version, the revision that it was built from and when, and the Go version.
func (version) Run(k *kong.Kong, about About) error {
	_, err := fmt.Fprintf(k.Stdout, "%s %s", k.Model.Name, about.Build)
	return err
}

// A versionFlag does what the command does, for who expects the one or the other.
type versionFlag bool

// BeforeReset is called before anything else on the line matters, as that of help is.
func (versionFlag) BeforeReset(k *kong.Kong, about About) error {
	if err := (version{}).Run(k, about); err != nil {
		return err
	}
	k.Exit(exitDone)
	return nil
}

// root returns the program.
func root(k *kong.Context) *kong.Node { return k.Model.Node }
