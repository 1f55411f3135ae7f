package apiclient

import (
	"net/http"
	"slices"
)

// An Operation is an operation of the API.
type Operation struct {
	ID      string
	Method  string
	Path    string // parameters in braces
	Scope   string // "" if any token may use it
	Summary string
	// Description is Markdown.
	Description string
	// Task describes the operation to an AI agent: what it is for, without HTTP.
	Task string
	// Query and Body are the names of query parameters and of the fields of the body.
	Query, Body []string
	// Input is the JSON Schema of an object with the parameters of the path and the query and the
	// fields of the body. A write also has idempotencyKey.
	Input string
	// Output is the JSON Schema of the answer, an object; a list is in its field items.
	Output string
	// IsList reports whether the answer is an array, or a page of one. Answer then describes its
	// items, else the answer.
	IsList bool
	Answer Object
}

// Writes reports whether the operation changes something.
func (o Operation) Writes() bool { return o.Method != http.MethodGet }

// An Object describes a JSON object.
type Object struct {
	Fields  []Field  // in the order of the description
	Columns []string // the fields that a table of such objects shows
}

// ColumnFields returns the fields of the columns.
func (o Object) ColumnFields() []Field {
	columns := make([]Field, len(o.Columns))
	for i, name := range o.Columns {
		columns[i] = o.Fields[slices.IndexFunc(o.Fields, func(f Field) bool { return f.Name == name })]
	}
	return columns
}

// Texts returns the fields that are no columns, without the ID: texts that are too long for a
// table.
func (o Object) Texts() []Field {
	return slices.DeleteFunc(slices.Clone(o.Fields),
		func(f Field) bool { return f.Name == "id" || slices.Contains(o.Columns, f.Name) })
}

// A Field is a field of an object.
type Field struct {
	Name   string
	IsTime bool
	Items  *Object // what a list of objects contains; nil for other fields
}
