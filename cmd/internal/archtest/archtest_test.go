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

// root is that of the module.
const root = "../../.."

// rules say what a folder must never link, directly or through others.
var rules = []struct {
	folder string
	never  []string
	except []string // what it may link of that nevertheless
}{
	{"./proto/...", []string{"opsgate"}, []string{"opsgate/proto"}},
	{"./authn", []string{"github.com/gin-gonic/gin", "opsgate"}, []string{"opsgate/authn", "opsgate/backendclient/timings", "opsgate/proto"}},
	{"./ratelimit", []string{"github.com/gin-gonic/gin", "opsgate"}, []string{"opsgate/ratelimit"}},
	{"./backendclient", []string{"github.com/gin-gonic/gin", "opsgate"}, []string{"opsgate/backendclient", "opsgate/proto"}},
	{
		"./gateway/...", // breakers are linked with backendclient's errors; that it does not use them itself, the linter sees to
		[]string{"github.com/redis", "database/sql", "modernc.org/sqlite", "opsgate/cmd"},
		nil,
	},
	{
		"./cmd/internal/refbackend/...", []string{"opsgate"},
		[]string{"opsgate/cmd/internal/refbackend", "opsgate/proto"},
	},
	{
		"./cmd/opsgate", // the metrics library links database/sql; without a driver there is no database
		[]string{
			"modernc.org/sqlite", "github.com/pressly/goose",
			"opsgate/cmd/internal/refbackend", "opsgate/cmd/internal/demo", "opsgate/cmd/internal/devcmd", "opsgate/cmd/internal/backendcmd",
		},
		nil,
	},
	{"./cmd/opsbackend", []string{"github.com/gin-gonic/gin", "opsgate/gateway", "opsgate/ratelimit", "opsgate/cmd/internal/edge"}, nil},
}

func TestPackagesLinkOnlyWhatTheyMay(t *testing.T) {
	lookAtSources(t)
	for _, rule := range rules {
		t.Run(rule.folder, func(t *testing.T) {
			linked := list(t, "-deps", rule.folder)
			if len(linked) < 10 {
				t.Fatalf("it links no more than %v: the rule looks at nothing", linked)
			}
			for _, dependency := range linked {
				if within(dependency, rule.never) && !within(dependency, rule.except) {
					t.Errorf("links %s", dependency)
				}
			}
		})
	}
}

// A rule whose folder or exception is not there any more holds nothing.
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

// The edge wires the gateway. The admin pages and the command show its explanations.
func TestOnlyEdgeAndAdminImportGateway(t *testing.T) {
	allowed := []string{"opsgate/cmd/internal/edge", "opsgate/cmd/internal/admin", "opsgate/cmd/internal/gatewaycmd"}
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

// lookAtSources looks into every folder, so that the results of these tests are cached only for as long as no file changes:
// the cache knows what a test itself opens, and not what go list reads.
func lookAtSources(t *testing.T) {
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
	out, problems := new(bytes.Buffer), new(bytes.Buffer)
	cmd := exec.CommandContext(t.Context(), "go", append([]string{"list"}, args...)...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = root, out, problems
	if err := cmd.Run(); err != nil {
		t.Fatalf("go list %v: %v\n%s", args, err, problems)
	}
	return out.String()
}
