package arch

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"opsgate/backendclient/testkit"
)

// docs/integrate/audit-actions.md lists exactly the action types of the code and the demo data, and the API description lists the same.
func TestAuditActionsAreDocumented(t *testing.T) {
	page := readPage(t, "docs/integrate/audit-actions.md")
	_, page, _ = strings.Cut(page, "\n## Written by the reference backend\n")
	backend, dashboard, _ := strings.Cut(page, "\n## Written by a dashboard\n")
	row := regexp.MustCompile("(?m)^\\| `([a-z_]+\\.[a-z_]+)` \\|")
	written, rest := captures(row, backend), captures(row, dashboard)

	description := readPage(t, "gateway/openapi/openapi.yaml")
	_, description, _ = strings.Cut(description, "\n    AuditEntry:\n")
	_, description, _ = strings.Cut(description, "\n        actionType:\n")
	types, description, _ := strings.Cut(description, "\n        resourceType:\n")
	resources, _, _ := strings.Cut(description, "\n        resourceId:\n")
	value := regexp.MustCompile(`(?m)^            - ([a-z_.]+)$`)
	wantSame(t, "rows of the page and values of actionType", slices.Concat(written, rest), captures(value, types))
	wantSame(t, "resources of the page and values of resourceType", resourcesOf(slices.Concat(written, rest)), captures(value, resources))

	form := regexp.MustCompile(`^(` + strings.Join(captures(value, resources), "|") + `)\.[a-z_]+$`)
	code := map[string]bool{}
	for _, folder := range []string{"service", "inventory"} {
		maps.Copy(code, literals(t, "cmd/internal/backend/"+folder, form))
	}
	// Other literals of this package are attributes of traces.
	maps.Copy(code, literals(t, "cmd/internal/backend/delivery", regexp.MustCompile(`^subscriber\.[a-z_]+$`)))
	wantSame(t, "rows of the backend and literals in its code", written, slices.Collect(maps.Keys(code)))
	demo := literals(t, "cmd/internal/backend/demo", form)
	for _, action := range written {
		delete(demo, action)
	}
	wantSame(t, "other rows and literals in the demo data", rest, slices.Collect(maps.Keys(demo)))
}

// captures returns the first group of each match.
func captures(expression *regexp.Regexp, text string) (groups []string) {
	for _, match := range expression.FindAllStringSubmatch(text, -1) {
		groups = append(groups, match[1])
	}
	return groups
}

// resourcesOf returns the parts of action types before the dot, without repeats.
func resourcesOf(actions []string) []string {
	resources := map[string]bool{}
	for _, action := range actions {
		resource, _, _ := strings.Cut(action, ".")
		resources[resource] = true
	}
	return slices.Collect(maps.Keys(resources))
}

func wantSame(t *testing.T, what string, a, b []string) {
	t.Helper()
	slices.Sort(a)
	slices.Sort(b)
	if len(a) == 0 || !slices.Equal(a, b) {
		t.Errorf("%s differ:\n%v\n%v", what, a, b)
	}
}

// literals returns the texts in the Go code of a directory that have a form, other than those of tests.
func literals(t *testing.T, dir string, form *regexp.Regexp) map[string]bool {
	t.Helper()
	found := map[string]bool{}
	err := filepath.WalkDir(filepath.Join(root, dir), func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(node ast.Node) bool {
			literal, ok := node.(*ast.BasicLit)
			if !ok || literal.Kind != token.STRING {
				return true
			}
			if text, err := strconv.Unquote(literal.Value); err == nil && form.MatchString(text) {
				found[text] = true
			}
			return true
		})
		return nil
	})
	testkit.Must(t, err)
	return found
}
