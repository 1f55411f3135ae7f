package arch

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"opsgate/internal/testkit"
)

// root is the root folder of the module.
const root = "../../../.."

// The linter checks direct imports (.golangci.yml); this test checks what programs link through
// other packages.
func TestProgramsLinkOnlyWhatTheyMay(t *testing.T) {
	openSourceFolders(t)
	for program, never := range map[string][]string{
		"opsgate": { // the metrics library links database/sql, but no driver
			"modernc.org/sqlite", "github.com/pressly/goose",
			"opsgate/proto/ops/ingest", "opsgate/cmd/internal/backend", "opsgate/cmd/internal/ctl", "opsgate/cmd/internal/dev",
		},
		"opsbackend": {"github.com/gin-gonic/gin", "opsgate/gateway", "opsgate/ratelimit", "opsgate/cmd/internal/gate"},
		"opsctl":     {"github.com/gin-gonic/gin", "github.com/redis", "google.golang.org/grpc", "opsgate/gateway", "opsgate/authn"},
	} {
		linked := list(t, "-deps", "./cmd/"+program)
		if len(linked) < 100 {
			t.Errorf("%s links only %v: the rule is without effect", program, linked)
		}
		for _, dependency := range linked {
			if slices.ContainsFunc(never, func(f string) bool { return dependency == f || strings.HasPrefix(dependency, f+"/") }) {
				t.Errorf("%s links %s", program, dependency)
			}
		}
	}
}

// list runs go list in the root of the module.
func list(t *testing.T, args ...string) []string {
	t.Helper()
	command := exec.CommandContext(t.Context(), "go", append([]string{"list"}, args...)...)
	command.Dir = root
	return strings.Fields(testkit.Output(t, command))
}

// openSourceFolders opens every folder of the module, so that a changed file invalidates the cached
// test result: the test cache does not see what go list reads.
func openSourceFolders(t *testing.T) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.IsDir() && path != root && strings.HasPrefix(entry.Name(), ".") {
			return fs.SkipDir
		}
		return err
	})
	testkit.Must(t, err)
}

func readPage(t *testing.T, name string) string {
	t.Helper()
	page, err := os.ReadFile(filepath.Join(root, name))
	testkit.Must(t, err)
	return string(page)
}
