// Command operationsgen generates the table of operations of package apiclient from the OpenAPI document. It runs in the root of the
// repository, by `make generate`.
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
	return os.WriteFile(tableFile, table, 0o644) //nolint:gosec // sources are public
}
