//go:build !manual

package commandline

import "github.com/spf13/cobra"

// releaseCommands returns no command: see the file with the tag manual.
func releaseCommands() []*cobra.Command { return nil }
