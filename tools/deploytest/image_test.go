package deploytest

import (
	"debug/elf"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"opsgate/backendclient/testkit"
)

// standalone is a configuration without dependencies.
const standalone = `listen: 127.0.0.1:0
admin: {listen: 127.0.0.1:ADMIN}
upstreams:
  fleet: &unreachable {address: 127.0.0.1:1}
  monitoring: *unreachable
  incident: *unreachable
  audit: *unreachable
  identity: *unreachable
shutdown: {drain_wait: 0s}
`

func TestProgramsAreStatic(t *testing.T) {
	for _, name := range []string{"opsgate", "opsbackend"} {
		file, err := elf.Open(filepath.Join(programs, name))
		testkit.Must(t, err)
		for _, part := range file.Progs {
			if part.Type == elf.PT_INTERP || part.Type == elf.PT_DYNAMIC {
				t.Errorf("%s is linked dynamically", name)
			}
		}
		_ = file.Close()
		got := run(t, exec.CommandContext(t.Context(), filepath.Join(programs, name), "version"))
		want := name + " " + version + "\nrevision: " + revision + "\ndate: " + buildDate + "\n"
		if !strings.HasPrefix(got, want) {
			t.Errorf("%s version: %q", name, got)
		}
	}
}

// readable makes a folder and its parents readable for all users.
func readable(t *testing.T, dir string) {
	t.Helper()
	run(t, exec.CommandContext(t.Context(), "chmod", "-R", "a+rX", dir))
	for dir != os.TempDir() && dir != "/" {
		testkit.Must(t, os.Chmod(dir, 0o755))
		dir = filepath.Dir(dir)
	}
}
