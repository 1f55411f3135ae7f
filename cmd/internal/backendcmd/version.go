package backendcmd

import (
	"fmt"
	"runtime"
	"runtime/debug"
)

type versionInfo struct{}

// Run prints the program's version, the revision that it was built from, and the Go version.
func (versionInfo) Run(e Environment) error {
	version, revision := "unknown", "unknown"
	if info, ok := debug.ReadBuildInfo(); ok {
		version = info.Main.Version
		for _, setting := range info.Settings {
			if setting.Key == "vcs.revision" {
				revision = setting.Value
			}
		}
	}
	_, err := fmt.Fprintf(e.Out, "opsbackend %s (revision %s, %s)\n", version, revision, runtime.Version())
	return err
}
