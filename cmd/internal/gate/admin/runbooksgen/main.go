// Command runbooksgen generates the HTML of the runbooks, which the admin listener serves, from
// docs/operate/runbooks. It runs in the root of the repository, by `make generate`.
package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

const (
	sourceDir = "docs/operate/runbooks"
	outDir    = "cmd/internal/gate/admin/runbooks"
)

func main() {
	if err := run("."); err != nil {
		fmt.Fprintln(os.Stderr, "runbooksgen:", err)
		os.Exit(1)
	}
}

// run replaces the generated files.
func run(root string) error {
	files, err := generate(root)
	if err != nil {
		return err
	}
	out := filepath.Join(root, outDir)
	if err := errors.Join(os.RemoveAll(out), os.Mkdir(out, 0o755)); err != nil { //nolint:gosec // sources are public
		return err
	}
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(out, name), content, 0o644); err != nil { //nolint:gosec // sources are public
			return err
		}
	}
	return nil
}

// generate returns the generated files by name.
func generate(root string) (map[string][]byte, error) {
	paths, err := filepath.Glob(filepath.Join(root, sourceDir, "*.md"))
	if err != nil {
		return nil, err
	}
	pages := make([]*page, 0, len(paths))
	known := make(map[string]bool, len(paths))
	for _, path := range paths {
		source, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		p, err := parse(filepath.Base(path), source)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		pages, known[p.name] = append(pages, p), true
	}
	files := make(map[string][]byte, len(pages))
	for _, p := range pages {
		content, err := p.render(known)
		if err != nil {
			return nil, fmt.Errorf("%s/%s: %w", sourceDir, p.name, err)
		}
		files[htmlName(p.name)] = p.document(content, pages)
	}
	return files, nil
}

// htmlName returns the name of the generated file of a page.
func htmlName(name string) string { return strings.TrimSuffix(name, ".md") + ".html" }
