package deploytest

import (
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"opsgate/internal/testkit"
)

// systemd accepts the units, and rates the exposure of the service at most 1.2 of 10, as
// docs/operate/install.md states: it can use the network.
func TestUnitsAreValid(t *testing.T) {
	program, dir := testkit.Find(t, "systemd-analyze"), t.TempDir()
	for _, name := range []string{"opsgate.socket", "opsgate.service"} {
		text := read(t, root+"/deploy/systemd/"+name)
		write(t, filepath.Join(dir, name), strings.ReplaceAll(text, "/usr/local/bin", programs))
	}
	service, socket := filepath.Join(dir, "opsgate.service"), filepath.Join(dir, "opsgate.socket")
	out := run(t, exec.CommandContext(t.Context(), program, "verify", "--man=no", service, socket))
	if regexp.MustCompile(`opsgate\.(service|socket):\d+`).MatchString(out) { // an unknown key is only a warning
		t.Error(out)
	}
	run(t, exec.CommandContext(t.Context(), program, "security", "--offline=true", "--no-pager", "--threshold=12", service))
}
