package commandline

import (
	"embed"
	"strings"

	"github.com/alecthomas/kong"
)

//go:embed scripts
var scripts embed.FS

type completion struct {
	Shell string `arg:"" enum:"bash,zsh,fish" help:"bash, zsh or fish."`
}

// Run prints the script for the shell.
func (c *completion) Run(k *kong.Context) error {
	script, err := scripts.ReadFile("scripts/completion." + c.Shell)
	if err != nil {
		return err
	}
	_, err = k.Stdout.Write([]byte(strings.ReplaceAll(string(script), "PROGRAM", root(k).Name)))
	return err
}
