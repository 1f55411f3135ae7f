//go:build manual

package commandline

import (
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"opsgate/internal/buildinfo"
)

// releaseCommands returns the command that writes a manual page for each command of the program to
// a folder. tools/release builds programs with the tag manual to run it; released programs do not
// have it, because its Markdown library takes 0.3 MB.
func releaseCommands() []*cobra.Command {
	return []*cobra.Command{{
		Use: "man DIR", Hidden: true,
		RunE: func(c *cobra.Command, arguments []string) error {
			build := buildinfo.Read()
			date, err := time.Parse(time.RFC3339, build.Date)
			if err != nil {
				return err
			}
			program := c.Root()
			program.DisableAutoGenTag = true // no line that names the generator
			return doc.GenManTree(program, &doc.GenManHeader{Date: &date, Source: program.Name() + " " + build.Version},
				arguments[0])
		},
	}}
}
