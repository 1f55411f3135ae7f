package archtest

import (
	"bytes"
	"io/fs"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// root is the root folder of the module.
const root = "../../../.."

// rules list the packages that a folder must not link, directly or indirectly.
var rules = []struct {
	folder string
	never  []string
	except []string // exceptions to never
}{
	{"./proto/...", []string{"opsgate"}, []string{"opsgate/proto"}},
	{"./authn", []string{"github.com/gin-gonic/gin", "opsgate"}, []string{"opsgate/authn", "opsgate/backendclient/timings", "opsgate/proto"}},
	{"./ratelimit", []string{"github.com/gin-gonic/gin", "opsgate"}, []string{"opsgate/ratelimit"}},
	{"./backendclient", []string{"github.com/gin-gonic/gin", "opsgate"}, []string{"opsgate/backendclient", "opsgate/proto"}},
	{
		"./gateway/...", // backendclient links the breaker; the linter checks that gateway does not import it
		[]string{"github.com/redis", "database/sql", "modernc.org/sqlite", "opsgate/cmd"},
		nil,
	},
	{
		"./cmd/internal/backend/service/...", []string{"opsgate"},
		[]string{"opsgate/cmd/internal/backend/service", "opsgate/proto"},
	},
	{
		"./cmd/opsgate", // the metrics library links database/sql, but no driver
		[]string{
			"modernc.org/sqlite", "github.com/pressly/goose",
			"opsgate/cmd/internal/backend/service", "opsgate/cmd/internal/backend/demo", "opsgate/cmd/internal/dev/command", "opsgate/cmd/internal/backend/command",
			"opsgate/cmd/internal/dev/rehearsal",
		},
		nil,
	},
	{"./cmd/opsbackend", []string{"github.com/gin-gonic/gin", "opsgate/gateway", "opsgate/ratelimit", "opsgate/cmd/internal/gate/wiring"}, nil},
	{
		"./cmd/opsctl", []string{"opsgate", "github.com/gin-gonic/gin", "github.com/redis", "google.golang.org/grpc", "modernc.org/sqlite"},
		[]string{
			"opsgate/cmd/opsctl", "opsgate/cmd/internal/ctl/command", "opsgate/cmd/internal/ctl/apiclient", "opsgate/cmd/internal/kit/buildinfo",
			"opsgate/cmd/internal/kit/commandline",
		},
	},
}

func TestPackagesLinkOnlyWhatTheyMay(t *testing.T) {
	openSourceFolders(t)
	for _, rule := range rules {
		t.Run(rule.folder, func(t *testing.T) {
			linked := list(t, "-deps", rule.folder)
			if len(linked) < 10 {
				t.Fatalf("it links only %v: the rule is without effect", linked)
			}
			for _, dependency := range linked {
				if within(dependency, rule.never) && !within(dependency, rule.except) {
					t.Errorf("links %s", dependency)
				}
			}
		})
	}
}

// A rule for a removed package has no effect.
func TestRulesNameExistingPackages(t *testing.T) {
	all := list(t, "-deps", "-test", "./...")
	for _, rule := range rules {
		for _, path := range slices.Concat(rule.never, rule.except) {
			if !slices.ContainsFunc(all, func(p string) bool { return within(p, []string{path}) }) {
				t.Errorf("%s: there is no %s", rule.folder, path)
			}
		}
	}
}

// Package edge creates the gateway; the admin pages and the command show its explanations.
func TestOnlyEdgeAndAdminImportGateway(t *testing.T) {
	allowed := []string{"opsgate/cmd/internal/gate/wiring", "opsgate/cmd/internal/gate/admin", "opsgate/cmd/internal/gate/command"}
	for line := range strings.Lines(goList(t, "-f", `{{.ImportPath}} {{join .Imports " "}}`, "./...")) {
		path, imports := strings.Fields(line)[0], strings.Fields(line)[1:]
		if !slices.Contains(allowed, path) && slices.Contains(imports, "opsgate/gateway") {
			t.Errorf("%s imports opsgate/gateway", path)
		}
	}
}

func within(path string, folders []string) bool {
	return slices.ContainsFunc(folders, func(f string) bool { return path == f || strings.HasPrefix(path, f+"/") })
}

func list(t *testing.T, args ...string) []string {
	t.Helper()
	return strings.Fields(goList(t, args...))
}

// openSourceFolders opens every folder of the module, so that a changed file invalidates the cached test result: the test cache does not
// see what go list reads.
func openSourceFolders(t *testing.T) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.IsDir() && path != root && strings.HasPrefix(entry.Name(), ".") {
			return fs.SkipDir
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// goList runs go list in the root of the module.
func goList(t *testing.T, args ...string) string {
	t.Helper()
	out, stderr := new(bytes.Buffer), new(bytes.Buffer)
	cmd := exec.CommandContext(t.Context(), "go", append([]string{"list"}, args...)...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = root, out, stderr
	if err := cmd.Run(); err != nil {
		t.Fatalf("go list %v: %v\n%s", args, err, stderr)
	}
	return out.String()
}
