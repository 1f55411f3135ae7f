// Command openapigen generates the OpenAPI document and the README's table of operations from
// gateway/openapi/source.yaml. It runs in the root of the repository, by `make generate`.
package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"go.yaml.in/yaml/v3"
)

const (
	sourceFile   = "gateway/openapi/source.yaml"
	documentFile = "gateway/openapi/openapi.yaml"
	readmeFile   = "README.md"
)

func main() {
	if err := run("."); err != nil {
		fmt.Fprintln(os.Stderr, "openapigen:", err)
		os.Exit(1)
	}
}

func run(root string) error {
	files, err := generate(root)
	if err != nil {
		return err
	}
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(root, name), content, 0o644); err != nil { //nolint:gosec // sources are public
			return err
		}
	}
	return nil
}

// generate returns the generated files by name, relative to the root of the repository.
func generate(root string) (map[string][]byte, error) {
	source, err := os.ReadFile(filepath.Join(root, sourceFile))
	if err != nil {
		return nil, err
	}
	var document yaml.Node
	if err := yaml.Unmarshal(source, &document); err != nil {
		return nil, fmt.Errorf("%s: %w", sourceFile, err)
	}
	if len(document.Content) == 0 {
		return nil, errors.New(sourceFile + " is empty")
	}
	operations, err := complete(document.Content[0])
	if err != nil {
		return nil, fmt.Errorf("%s: %w", sourceFile, err)
	}
	openAPI := bytes.NewBufferString("# Generated from source.yaml by `make generate`. Do not edit.\n")
	encoder := yaml.NewEncoder(openAPI)
	encoder.SetIndent(2)
	if err := encoder.Encode(&document); err != nil {
		return nil, err
	}
	readme, err := os.ReadFile(filepath.Join(root, readmeFile))
	if err != nil {
		return nil, err
	}
	readme, err = replaceTable(readme, operations)
	return map[string][]byte{documentFile: openAPI.Bytes(), readmeFile: readme}, err
}
