package admin

import (
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"io/fs"
	"net/http"
	"strings"
)

// files has the page with its styles and scripts, and the runbooks.
//
//go:embed page runbooks
var files embed.FS

// file returns an embedded file, or "" if there is none.
func file(name string) string {
	content, _ := files.ReadFile(name)
	return string(content)
}

// document is a complete page with its Content-Security-Policy.
type document struct {
	body   string
	policy string
}

// newPage inserts style and script into the page. The policy allows only these two, by hash, and
// only connections to the page's own listener; it forbids forms. The parts of the script share the
// scope of one function.
func newPage() document {
	parts := []string{"'use strict';\n(() => {\n"}
	names, _ := fs.Glob(files, "page/*.js") // the pattern is valid
	for _, name := range names {
		parts = append(parts, file(name))
	}
	script := strings.Join(append(parts, "})();\n"), "")
	page := newDocument(strings.Replace(file("page/page.html"), "{{script}}", script, 1), file("page/page.css"))
	page.policy += "; connect-src 'self'; require-trusted-types-for 'script'; trusted-types 'none'; script-src " +
		sourceHash(script)
	return page
}

// newDocument inserts the style into a page. The policy allows only this style: no script, form or
// connection.
func newDocument(body, style string) document {
	style = file("page/palette.css") + style
	return document{
		body: strings.Replace(body, "{{style}}", style, 1),
		policy: "default-src 'none'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; style-src " +
			sourceHash(style),
	}
}

// sourceHash returns the hash of an inline source in the syntax of a Content-Security-Policy.
func sourceHash(source string) string {
	sum := sha256.Sum256([]byte(source))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}

func (d document) serve(w http.ResponseWriter) {
	for name, value := range map[string]string{
		"Content-Type":                 "text/html; charset=utf-8",
		"Content-Security-Policy":      d.policy,
		"Cache-Control":                "no-store",
		"X-Frame-Options":              "DENY",
		"Referrer-Policy":              "no-referrer",
		"Cross-Origin-Opener-Policy":   "same-origin",
		"Cross-Origin-Resource-Policy": "same-origin",
	} {
		w.Header().Set(name, value)
	}
	_, _ = w.Write([]byte(d.body)) // fails only if the client has disconnected
}

// runbook serves a page of docs/operate/runbooks as HTML, so that the instructions can be read when
// everything else is unavailable.
func runbook(w http.ResponseWriter, r *http.Request) {
	body := file("runbooks/" + r.PathValue("name"))
	if body == "" {
		Respond(w, http.StatusNotFound, Failure{Text: "there is no such runbook", Code: "not_found"})
		return
	}
	newDocument(body, file("page/runbook.css")).serve(w)
}
