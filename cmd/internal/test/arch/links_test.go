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

// Every relative link of the documents leads to a file of the repository, and to a heading if it
// has an anchor.
func TestLinksOfDocumentsResolve(t *testing.T) {
	link, seen := regexp.MustCompile(`\]\(([^)\s]+)\)`), 0
	for _, page := range documents(t) {
		for _, found := range link.FindAllStringSubmatch(prose(t, page), -1) {
			file, anchor, _ := strings.Cut(found[1], "#")
			if strings.Contains(file, ":") {
				continue
			}
			seen++
			target := page
			if file != "" {
				target = filepath.Join(filepath.Dir(page), file)
			}
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s: there is no %s", page, found[1])
			} else if anchor != "" && strings.HasSuffix(target, ".md") && !slices.Contains(headings(t, target), anchor) {
				t.Errorf("%s: there is no heading for %s", page, found[1])
			}
		}
	}
	if seen < 300 {
		t.Errorf("found only %d links", seen)
	}
}

// documents returns the paths of README.md, CHANGELOG.md, SECURITY.md and all pages in docs.
func documents(t *testing.T) []string {
	t.Helper()
	pages := []string{filepath.Join(root, "README.md"), filepath.Join(root, "CHANGELOG.md"), filepath.Join(root, "SECURITY.md")}
	err := filepath.WalkDir(filepath.Join(root, "docs"), func(path string, _ fs.DirEntry, err error) error {
		if strings.HasSuffix(path, ".md") {
			pages = append(pages, path)
		}
		return err
	})
	testkit.Must(t, err)
	return pages
}

var fences = regexp.MustCompile("(?ms)^```.*?\n```$")

// prose returns a page without its blocks of code.
func prose(t *testing.T, page string) string {
	t.Helper()
	text, err := os.ReadFile(page)
	testkit.Must(t, err)
	return fences.ReplaceAllString(string(text), "")
}

var (
	heading      = regexp.MustCompile(`(?m)^#+ +(.*)$`)
	notInAnchors = regexp.MustCompile(`[^\p{L}\p{N}_\- ]`)
)

// headings returns the anchors of a page, as code hosts make them.
func headings(t *testing.T, page string) (anchors []string) {
	t.Helper()
	for _, found := range heading.FindAllStringSubmatch(prose(t, page), -1) {
		anchor := notInAnchors.ReplaceAllString(strings.ToLower(found[1]), "")
		anchors = append(anchors, strings.ReplaceAll(anchor, " ", "-"))
	}
	return anchors
}
