package commandline

import (
	"fmt"

	"github.com/alecthomas/kong"

	"opsgate/cmd/internal/kit/buildinfo"
)

// Commands is embedded in the grammar of a program, which binds an About.
type Commands struct {
	Version    version    `cmd:"" help:"Print the version."`
	Completion completion `cmd:"" help:"Print a completion script for bash, zsh or fish."`
	Man        manual     `cmd:"" help:"Print the manual page."`
	Complete   complete   `cmd:"" hidden:"" name:"__complete" help:"Print the candidates for the last word."`

	AsVersion versionFlag `name:"version" help:"Print the version."`
}

// About describes a program beyond its commands.
type About struct {
	Build buildinfo.Info
	// Sections follow the commands in the manual page.
	Sections []Section
}

// A Section of a manual page is a text, a list, or both.
type Section struct {
	Title string
	Text  string
	Items []Item
}

// An Item is an entry of a list with its description.
type Item struct{ Term, Text string }

type version struct{}

// Run prints the version, the revision, the time of the build and the Go version.
func (version) Run(k *kong.Kong, about About) error {
	_, err := fmt.Fprintf(k.Stdout, "%s %s", k.Model.Name, about.Build)
	return err
}

// versionFlag is the version command as a flag.
type versionFlag bool

// BeforeReset prints the version. kong calls it before it validates the rest of the line.
func (versionFlag) BeforeReset(k *kong.Kong, about About) error {
	if err := (version{}).Run(k, about); err != nil {
		return err
	}
	k.Exit(exitDone)
	return nil
}

// root returns the node of the program.
func root(k *kong.Context) *kong.Node { return k.Model.Node }
