// Command operationsgen generates the table of operations of package apiclient, and the types and
// operations of the client packages in clients, from the OpenAPI document. It runs in the root of
// the repository, by `go generate`.
package main

import (
	"cmp"
	"fmt"
	"os"
	"slices"

	"opsgate/gateway/openapi"
)

const tableFile = "cmd/internal/ctl/apiclient/operations.gen.go"

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "operationsgen:", err)
		os.Exit(1)
	}
}

func run() error {
	document, err := openapi.Read(openapi.YAML())
	if err != nil {
		return err
	}
	slices.SortStableFunc(document.Operations, func(a, b openapi.Operation) int { return cmp.Compare(a.Path, b.Path) })
	table, err := generate(document)
	if err != nil {
		return err
	}
	described, err := describe(document)
	if err != nil {
		return err
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
