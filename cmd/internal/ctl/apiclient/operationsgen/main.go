// Command operationsgen generates the table of operations of package apiclient, and the types and operations of the client packages in
// tools/clients, from the OpenAPI document. It runs in the root of the repository, by `make generate`.
package main

import (
	"fmt"
	"os"
)

const (
	documentFile = "gateway/openapi/openapi.yaml"
	tableFile    = "cmd/internal/ctl/apiclient/operations.gen.go"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "operationsgen:", err)
		os.Exit(1)
	}
}

func run() error {
	document, err := os.ReadFile(documentFile)
	if err != nil {
		return err
	}
	table, err := generate(document)
	if err != nil {
		return fmt.Errorf("%s: %w", documentFile, err)
	}
	described, err := describe(document)
	if err != nil {
		return fmt.Errorf("%s: %w", documentFile, err)
	}
	files := map[string][]byte{tableFile: table}
	for name, l := range languages() {
		if files[l.file], err = render(name, l, described); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	for name, content := range files {
		if err := os.WriteFile(name, content, 0o644); err != nil { //nolint:gosec // sources are public
			return err
		}
	}
	return nil
}
