package backendcmd

import (
	"fmt"

	"opsgate/cmd/internal/buildinfo"
	"opsgate/cmd/internal/commandline"
)

type versionInfo struct{}

// Run prints the program's version, the revision that it was built from and when, and the Go version.
func (versionInfo) Run(e Environment) error {
	_, err := fmt.Fprintf(e.Out, "opsbackend %s", buildinfo.Read())
	return err
}

// about returns what the manual page says beside the commands.
func about(build buildinfo.Info) commandline.About {
	return commandline.About{Version: build.Version, Date: build.Day(), Sections: []commandline.Section{
		{Title: "EXIT STATUS", Items: []commandline.Item{
			{Term: "0", Text: "Done."},
			{Term: "1", Text: "Failed; standard error says why."},
			{Term: "2", Text: "Wrong usage."},
		}},
	}}
}
