package chaos

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"opsgate/internal/testkit"
)

const root = "../../../.."

// namedTest matches the name of a test in a document: its package, if it is another one than this,
// its name, and that of a row of its table.
var namedTest = regexp.MustCompile("`(?:([a-z/]+)\\.)?(Test\\w+)(/\\w+)?`")

func TestDocumentsNameExistingTests(t *testing.T) {
	existing := testsBelow(t)
	for _, page := range []struct {
		name string
		min  int // number of named tests
	}{{"operate/guarantees.md", 50}, {"operate/security.md", 50}} {
		named := namedTest.FindAllStringSubmatch(readPage(t, page.name), -1)
		for _, name := range named {
			folder := name[1]
			if folder == "" {
				folder = "chaos"
			}
			if test := folder + "." + name[2]; !existing[test] || name[3] != "" && !existing[folder+name[3]] {
				t.Errorf("%s: there is no %s%s", page.name, test, name[3])
			}
		}
		if len(named) < page.min {
			t.Errorf("%s names only %d tests", page.name, len(named))
		}
	}
}

// Each failure in docs/operate/guarantees.md, and each control and client behaviour in
// docs/operate/security.md, names its test.
func TestEveryRowNamesItsTest(t *testing.T) {
	failures, _, _ := strings.Cut(readPage(t, "operate/guarantees.md"), "\n## Measured\n")
	controls, _, _ := strings.Cut(readPage(t, "operate/security.md"), "\n## Measured\n")
	column := "" // heading of the table's last column
	for line := range strings.Lines(failures + controls) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		last := strings.TrimSpace(cells[len(cells)-1])
		switch {
		case !strings.HasPrefix(line, "|"):
			column = ""
		case column == "":
			column = last
		case column != "test", strings.HasPrefix(line, "|-"):
		case !strings.Contains(last, "Test") && !strings.Contains(last, "make "):
			t.Errorf("no test: %s", line)
		}
	}
}

func readPage(t *testing.T, name string) string {
	t.Helper()
	page, err := os.ReadFile(filepath.Join(root, "docs", filepath.FromSlash(name)))
	testkit.Must(t, err)
	return string(page)
}

// testsBelow returns the tests of all packages, as folder.Name and as parent/folder.Name, and the
// rows of their tables as folder/Name.
func testsBelow(t *testing.T) map[string]bool {
	t.Helper()
	names := map[string]bool{}
	function := regexp.MustCompile(`(?m)^func (Test\w+)\(`)
	row := regexp.MustCompile(`"([A-Z]\w+)"`)
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		source, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		folder := filepath.Dir(path)
		for _, found := range row.FindAllStringSubmatch(string(source), -1) {
			names[filepath.Base(folder)+"/"+found[1]] = true
		}
		for _, found := range function.FindAllStringSubmatch(string(source), -1) {
			name := filepath.Base(folder) + "." + found[1]
			names[name], names[filepath.Base(filepath.Dir(folder))+"/"+name] = true, true
		}
		return err
	})
	testkit.Must(t, err)
	return names
}
