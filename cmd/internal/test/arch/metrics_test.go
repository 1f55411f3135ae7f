package arch

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"opsgate/cmd/internal/test/metricspage"
	"opsgate/internal/testkit"
)

// otherNames begin like metrics and are none: files of secrets, a volume, and the Python package of
// the client.
var otherNames = []string{"opsgate_client", "opsgate_config", "opsgate_metrics_token", "opsgate_redis_password"}

// Documents, dashboards and rules name only metrics in the tables of the page of metrics, which
// have all that are registered.
func TestNamedMetricsAreRegistered(t *testing.T) {
	registered, histograms := map[string]bool{}, map[string]bool{}
	for _, row := range regexp.MustCompile("(?m)^\\| `(\\w+)[^`]*`( histogram)? \\|").FindAllStringSubmatch(readPage(t, metricspage.Page), -1) {
		registered[row[1]], histograms[row[1]] = true, row[2] != ""
	}
	name := regexp.MustCompile(`[:\w]*\b(?:opsgate|opsbackend)_[a-z0-9_:]*`)
	part := regexp.MustCompile(`_(bucket|sum|count)$`)
	found := 0
	for _, folder := range []string{"docs", "deploy"} {
		err := filepath.WalkDir(filepath.Join(root, folder), func(path string, entry fs.DirEntry, err error) error {
			if err != nil || !entry.Type().IsRegular() {
				return err
			}
			text, err := os.ReadFile(path)
			for _, named := range name.FindAllString(string(text), -1) {
				if strings.Contains(named, ":") || strings.HasSuffix(named, "_") || slices.Contains(otherNames, named) {
					continue // the name of a recording rule, or the start of several names
				}
				found++
				if !registered[named] && !histograms[part.ReplaceAllString(named, "")] {
					t.Errorf("%s names %s, which no program registers", path, named)
				}
			}
			return err
		})
		testkit.Must(t, err)
	}
	if found < 100 {
		t.Errorf("only %d names were found: the search does not work", found)
	}
}
