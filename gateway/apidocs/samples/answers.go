package samples

import "embed"

//go:embed answers/*.http
var files embed.FS

// Answer returns the recorded response of an operation to its example request, by its operationId.
// ok is false if there is none.
//
// A record has the status line, the headers that clients use, an empty line and the body, indented.
// Of a list of more than two objects it has the first two and a line that starts with "…" and
// counts the others, so that not every record is JSON. Package test/docs in cmd/internal records
// and checks them.
func Answer(operationID string) (answer string, ok bool) {
	text, err := files.ReadFile("answers/" + operationID + ".http")
	return string(text), err == nil
}
