package backendcmd

import (
	"fmt"

	"opsgate/cmd/internal/buildinfo"
)

type versionInfo struct{}

// Run prints the program's version, the revision that it was built from, and the Go version.
func (versionInfo) Run(e Environment) error {
	_, err := fmt.Fprintf(e.Out, "opsbackend %s", buildinfo.Read())
	return err
}
