// Package answers has a recorded response of each operation, for the documentation: what the example request of package samples returned
// from opsdev.
//
// A record has the status line, the headers that clients use, an empty line and the body, indented. Of a list of more than two objects it
// has the first two and a line that starts with "…" and counts the others, so that not every record is JSON. Package test/docs in
// cmd/internal records and checks them.
package answers

import "embed"

//go:embed *.http
var files embed.FS

// Lookup returns the record of an operation by its operationId. ok is false if there is none.
func Lookup(operationID string) (answer string, ok bool) {
	text, err := files.ReadFile(operationID + ".http")
	return string(text), err == nil
}
