package arch

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"opsgate/internal/testkit"
)

// docs/integrate/audit-actions.md lists exactly the action types of the code and the demo data, and
// the API description lists the same.
func TestAuditActionsAreDocumented(t *testing.T) {
	_, page, _ := strings.Cut(readPage(t, "docs/integrate/audit-actions.md"), "\n## Written by the reference backend\n")
	backend, dashboard, _ := strings.Cut(page, "\n## Written by a dashboard\n")
	row := regexp.MustCompile("(?m)^\\| `([a-z_]+\\.[a-z_]+)` \\|")
	written, rest := captures(row, backend), captures(row, dashboard)

	_, description, _ := strings.Cut(readPage(t, "gateway/openapi/openapi.yaml"), "\n    AuditEntry:\n")
	_, description, _ = strings.Cut(description, "\n        actionType:\n")
	types, description, _ := strings.Cut(description, "\n        resourceType:\n")
	resources, _, _ := strings.Cut(description, "\n        resourceId:\n")
	value := regexp.MustCompile(`(?m)^            - ([a-z_.]+)$`)
	wantSame(t, "rows of the page and values of actionType", slices.Concat(written, rest), captures(value, types))

	form := regexp.MustCompile(`"((?:` + strings.Join(captures(value, resources), "|") + `)\.[a-z_]+)"`)
	// Other literals of delivery are attributes of traces.
	code := slices.Concat(literals(t, "service", form), literals(t, "inventory", form), literals(t, "delivery", regexp.MustCompile(`"(subscriber\.[a-z_]+)"`)))
	wantSame(t, "rows of the backend and literals in its code", written, code)
	demo := slices.DeleteFunc(literals(t, "demo", form), func(action string) bool { return slices.Contains(written, action) })
	wantSame(t, "other rows and literals in the demo data", rest, demo)
}

// captures returns the first group of each match.
func captures(expression *regexp.Regexp, text string) (groups []string) {
	for _, match := range expression.FindAllStringSubmatch(text, -1) {
		groups = append(groups, match[1])
	}
	return groups
}

// wantSame compares two lists as sets.
func wantSame(t *testing.T, what string, a, b []string) {
	t.Helper()
	set := func(list []string) []string {
		return slices.Compact(slices.Sorted(slices.Values(list)))
	}
	if len(a) == 0 || !slices.Equal(set(a), set(b)) {
		t.Errorf("%s differ:\n%v\n%v", what, set(a), set(b))
	}
}

// literals returns the texts in the Go code of a folder of the backend that have a form, other than
// those of tests.
func literals(t *testing.T, folder string, form *regexp.Regexp) (found []string) {
	t.Helper()
	err := filepath.WalkDir(filepath.Join(root, "cmd", "internal", "backend", folder), func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		found = append(found, captures(form, string(text))...)
		return err
	})
	testkit.Must(t, err)
	return found
}
