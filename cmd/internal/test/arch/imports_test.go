package arch

import (
	"bytes"
	"io/fs"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"opsgate/backendclient/testkit"
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
	{"./authn", []string{"github.com/gin-gonic/gin", "opsgate"}, []string{"opsgate/authn", "opsgate/backendclient/timings", "opsgate/internal", "opsgate/proto"}},
	{"./ratelimit", []string{"github.com/gin-gonic/gin", "opsgate"}, []string{"opsgate/ratelimit"}},
	{"./backendclient", []string{"github.com/gin-gonic/gin", "opsgate"}, []string{"opsgate/backendclient", "opsgate/internal", "opsgate/proto"}},
	{
		"./gateway/...", // backendclient links the breaker; the linter checks that gateway does not import it
		[]string{"github.com/redis", "database/sql", "modernc.org/sqlite", "opsgate/cmd"},
		nil,
	},
	{
		"./cmd/internal/gate/httpserver", // gateway declares its connections
		[]string{"opsgate/cmd", "opsgate/ratelimit/redisstore", "opsgate/ratelimit/failover"},
		[]string{"opsgate/cmd/internal/gate/httpserver"},
	},
	{"./cmd/internal/gate/status", []string{"opsgate/cmd/internal/gate/wiring", "opsgate/cmd/internal/gate/httpserver"}, nil},
	{
		"./cmd/opsgate", // the metrics library links database/sql, but no driver
		[]string{
			"modernc.org/sqlite", "github.com/pressly/goose",
			"opsgate/proto/ops/ingest", "opsgate/cmd/internal/backend", "opsgate/cmd/internal/ctl", "opsgate/cmd/internal/dev",
		},
		nil,
	},
	{
		"./cmd/opsbackend",
		[]string{
			"github.com/gin-gonic/gin", "opsgate/gateway", "opsgate/ratelimit",
			"opsgate/cmd/internal/ctl", "opsgate/cmd/internal/dev", "opsgate/cmd/internal/gate",
		},
		nil,
	},
	{
		"./cmd/opsctl", []string{"opsgate", "github.com/gin-gonic/gin", "github.com/redis", "google.golang.org/grpc", "modernc.org/sqlite"},
		[]string{"opsgate/cmd/opsctl", "opsgate/cmd/internal/ctl", "opsgate/cmd/internal/kit"},
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

// areas are the folders of cmd/internal, with the areas and packages that the packages of each may import beside those of their own.
// The packages of a test area may import everything.
var areas = map[string][]string{
	"gate":    {"gateway", "authn", "ratelimit", "backendclient", "cmd/internal/kit"},
	"backend": {"proto", "authn", "internal/shares", "cmd/internal/kit"},
	"dev": {
		"proto", "authn", "backendclient/filereader",
		"cmd/internal/gate", "cmd/internal/backend", "cmd/internal/conformance", "cmd/internal/kit",
	},
	"ctl":         {"cmd/internal/kit"},
	"conformance": {"proto", "cmd/internal/kit"},
	"kit":         {"backendclient", "internal/outagelog"},
}

func TestAreasImportOnlyTheAreasBelowThem(t *testing.T) {
	openSourceFolders(t)
	used := map[string]bool{} // areas with an import of another one
	for line := range strings.Lines(goList(t, "-f", `{{.ImportPath}} {{join .Imports " "}}`, "./cmd/internal/...")) {
		path, imports := strings.Fields(line)[0], strings.Fields(line)[1:]
		area, _, _ := strings.Cut(strings.TrimPrefix(path, "opsgate/cmd/internal/"), "/")
		allowed, exists := areas[area]
		if !exists && area != "test" {
			t.Errorf("%s is in an area that is not listed", path)
		}
		for _, imported := range imports {
			imported, ours := strings.CutPrefix(imported, "opsgate/")
			switch {
			case !ours || area == "test" || within(imported, []string{"cmd/internal/" + area}):
			case !within(imported, allowed):
				t.Errorf("%s imports %s", path, imported)
			default:
				used[area] = true
			}
		}
	}
	if len(used) != len(areas) {
		t.Errorf("only %v import another area: the test is without effect", used)
	}
}

// Package wiring creates the gateway, and httpserver implements its connections; status, the admin pages and the command show its
// explanations.
func TestOnlyFewPackagesImportGateway(t *testing.T) {
	allowed := []string{
		"opsgate/cmd/internal/gate/wiring", "opsgate/cmd/internal/gate/httpserver", "opsgate/cmd/internal/gate/status",
		"opsgate/cmd/internal/gate/admin", "opsgate/cmd/internal/gate/command",
	}
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
	testkit.Must(t, err)
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
