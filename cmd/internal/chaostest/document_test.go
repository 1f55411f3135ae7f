package chaostest

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Every failure that docs/reliability.md tells of names the test that has it happen.
func TestTheTestsOfReliabilityAreThere(t *testing.T) {
	const root = "../../.."
	there := testsBelow(t, root)
	page, err := os.ReadFile(filepath.Join(root, "docs", "reliability.md"))
	if err != nil {
		t.Fatal(err)
	}
	named := regexp.MustCompile("`(?:([a-z]+)\\.)?(Test\\w+)`").FindAllStringSubmatch(string(page), -1)
	for _, name := range named {
		folder := name[1]
		if folder == "" {
			folder = "chaostest"
		}
		if !there[folder+"."+name[2]] {
			t.Errorf("there is no %s.%s", folder, name[2])
		}
	}
	if len(named) < 50 {
		t.Errorf("only %d tests are named", len(named))
	}
	heads := "" // the last column of the table
	failures, _, _ := strings.Cut(string(page), "\n## Measured\n")
	for line := range strings.Lines(failures) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		last := strings.TrimSpace(cells[len(cells)-1])
		switch {
		case !strings.HasPrefix(line, "|"):
			heads = ""
		case heads == "":
			heads = last
		case heads != "shown by" && heads != "test", strings.HasPrefix(line, "|-"):
		case !strings.Contains(last, "Test") && !strings.Contains(line, "see *") && last != "those of the services" && last != "the same two":
			t.Errorf("shown by nothing: %s", line)
		}
	}
}

// testsBelow returns the tests of all packages, as folder.Name.
func testsBelow(t *testing.T, root string) map[string]bool {
	t.Helper()
	there := map[string]bool{}
	function := regexp.MustCompile(`(?m)^func (Test\w+)\(`)
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		source, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		for _, found := range function.FindAllStringSubmatch(string(source), -1) {
			there[filepath.Base(filepath.Dir(path))+"."+found[1]] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return there
}
