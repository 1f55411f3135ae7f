package samples

import (
	"embed"
	"net/http"
	"strings"
	"text/template"

	"opsgate/gateway/openapi"
)

// A Language is a form in which a call is rendered.
type Language struct {
	ID    string // for Render, anchors and class names
	Name  string // for people
	File  string // for a file with the sample
	Run   string // command that runs File; empty for a command of a shell
	Needs string // what type checking needs beside the language; may be empty
}

// Languages returns the languages in display order.
func Languages() []Language {
	return []Language{
		{ID: "curl", Name: "curl", File: "sample.sh"},
		{ID: "python", Name: "Python", File: "sample.py", Run: "python3 sample.py"},
		{
			ID: "typescript", Name: "TypeScript", File: "sample.mts", // a module, because it awaits at the top level
			Run: "npx tsx sample.mts", Needs: "@types/node",
		},
		{ID: "go", Name: "Go", File: "sample.go", Run: "go run sample.go"},
		{ID: "java", Name: "Java", File: "Sample.java", Run: "java Sample.java"},
	}
}

// A Request is a call of the API.
type Request struct {
	Method string // GET or POST
	Path   string // of the URL, with the values of its parameters, escaped
	Query  string // of the URL, escaped, without the question mark; may be empty
	Body   string // a JSON value; empty for none
}

// URL returns the URL of the request.
func (r Request) URL() string {
	if r.Query == "" {
		return openapi.PlaceholderURL + r.Path
	}
	return openapi.PlaceholderURL + r.Path + "?" + r.Query
}

// Idempotent reports whether the request has an Idempotency-Key.
func (r Request) Idempotent() bool { return r.Method == http.MethodPost }

//go:embed templates
var templateFiles embed.FS

var templates = template.Must(template.New("").Funcs(template.FuncMap{
	"shell": quoteShell, "quote": quote, "indented": indented,
	"python": pythonLiteral, "typescript": typeScriptLiteral, "goraw": goRaw, "textblock": textBlock,
}).ParseFS(templateFiles, "templates/*.tmpl"))

// Render returns the sample of a request in the language with this ID. It panics if there is no
// such language or the body is not JSON: requests are part of the program.
func Render(language string, r Request) string {
	var b strings.Builder
	if err := templates.ExecuteTemplate(&b, language+".tmpl", r); err != nil {
		panic("samples: " + err.Error())
	}
	return b.String()
}
