package arch

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"opsgate/backendclient/testkit"
)

// The README repeats rows of the table in docs/operate/performance.md.
func TestReadmeFiguresAreThoseOfThePerformancePage(t *testing.T) {
	_, cost, found := strings.Cut(readPage(t, "README.md"), "\n## What it costs\n")
	if !found {
		t.Fatal("README.md has no section \"What it costs\"")
	}
	section, _, _ := strings.Cut(cost, "\n## ")
	performance := readPage(t, "docs/operate/performance.md")
	rows := 0
	for line := range strings.Lines(section) {
		row := strings.TrimSpace(line)
		if !strings.Contains(row, "µs") {
			continue
		}
		rows++
		if !strings.Contains(performance, "\n"+row) {
			t.Errorf("docs/operate/performance.md does not have %s", row)
		}
	}
	if rows != 3 {
		t.Errorf("README.md has %d figures of requests, not 3", rows)
	}
}

func TestReadmeIsShort(t *testing.T) {
	if n := strings.Count(readPage(t, "README.md"), "\n"); n > 150 {
		t.Errorf("README.md has %d lines, more than 150", n)
	}
}

func readPage(t *testing.T, name string) string {
	t.Helper()
	page, err := os.ReadFile(filepath.Join(root, name))
	testkit.Must(t, err)
	return string(page)
}
