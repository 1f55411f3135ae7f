package apiclient

import "net/http"

// An Operation is an operation of the API, for programs that offer all of them.
type Operation struct {
	ID      string
	Method  string
	Path    string // parameters in braces
	Scope   string // "" if any token may use it
	Summary string
	// Description is Markdown.
	Description string
	// Query and Body are the names of query parameters and of the fields of the body.
	Query, Body []string
	// Input is the JSON Schema of an object with the parameters of the path and the query and the fields of the body. A write also has
	// idempotencyKey.
	Input string
}

// Writes reports whether the operation changes something.
func (o Operation) Writes() bool { return o.Method != http.MethodGet }
