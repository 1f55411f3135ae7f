package deploytest

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// runbookQueries returns the PromQL queries in runbooks: indented lines that are not shell
// commands.
func runbookQueries(t *testing.T) (list []query) {
	t.Helper()
	shell := regexp.MustCompile(`^(cp|curl|diff|grep|mv|openssl|opsgate|redis-cli|sed) `)
	promQL := regexp.MustCompile(`\b(opsgate_|opsbackend_|process_|go_|up\{)`)
	for _, path := range paths(t, "../docs/operate/runbooks/*.md") {
		for line := range strings.Lines(read(t, path)) {
			text, is := strings.CutPrefix(line, "    ")
			text = strings.TrimSpace(text)
			if is && !shell.MatchString(text) && !strings.HasPrefix(text, "{") && promQL.MatchString(text) {
				list = append(list, query{filepath.Base(path) + "/" + text, text})
			}
		}
	}
	return list
}

// namedMetrics returns all metrics that runbooks name.
func namedMetrics(t *testing.T) (list []query) {
	t.Helper()
	name := regexp.MustCompile(`\b(?:job:)?(?:opsgate|opsbackend)_[a-z_]+(?::\w+)?`)
	for _, path := range paths(t, "../docs/operate/runbooks/*.md") {
		for _, found := range name.FindAllString(read(t, path), -1) {
			if !strings.HasSuffix(found, "_") { // a prefix of several
				list = append(list, query{filepath.Base(path) + "/" + found, found})
			}
		}
	}
	return list
}

// anchors returns the anchors of a page's headings.
func anchors(t *testing.T, path string) (list []string) {
	t.Helper()
	dropped := regexp.MustCompile(`[^\w\- ]`)
	for line := range strings.Lines(read(t, path)) {
		if heading, is := strings.CutPrefix(line, "#"); is {
			text := strings.ToLower(strings.TrimSpace(strings.TrimLeft(heading, "#")))
			list = append(list, strings.ReplaceAll(dropped.ReplaceAllString(text, ""), " ", "-"))
		}
	}
	return list
}
