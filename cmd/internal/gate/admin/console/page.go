package console

import (
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"fmt"
	"net/http"
	"strings"

	"opsgate/cmd/internal/gate/admin"
)

var (
	//go:embed page/page.html
	pageHTML string
	//go:embed page/palette.css
	paletteCSS string
	//go:embed page/page.css
	pageCSS string
	//go:embed page/*.js
	scriptFiles embed.FS
)

// script returns the script of the page, without lines that are comments. Its parts share the scope of one function.
func script() string {
	var b strings.Builder
	b.WriteString("'use strict';\n(() => {\n")
	for _, part := range []string{"dom", "state", "traffic", "explain", "poll"} {
		text, _ := scriptFiles.ReadFile("page/" + part + ".js") // embedded: it exists
		for line := range strings.Lines(string(text)) {
			if !strings.HasPrefix(strings.TrimSpace(line), "//") {
				b.WriteString(line)
			}
		}
	}
	b.WriteString("})();\n")
	return b.String()
}

// document is a complete page with its Content-Security-Policy.
type document struct {
	body   string
	policy string
}

// newDocument inserts style and script into the page. The policy allows only these two, by hash, and only connections to the page's
// own listener; it forbids forms.
func newDocument() document {
	style, script := paletteCSS+pageCSS, script()
	body := strings.NewReplacer("{{style}}", style, "{{script}}", script).Replace(pageHTML)
	policy := fmt.Sprintf("default-src 'none'; script-src %s; style-src %s; img-src data:; connect-src 'self'; base-uri 'none';"+
		" form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'",
		sourceHash(script), sourceHash(style))
	return document{body: body, policy: policy}
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

var (
	//go:embed runbooks/*.html
	runbookFiles embed.FS
	//go:embed page/runbook.css
	runbookCSS string
)

// Runbook serves a page of docs/operate/runbooks as HTML, so that the instructions can be read when everything else is unavailable.
func (c *Console) Runbook(w http.ResponseWriter, r *http.Request) {
	body, err := runbookFiles.ReadFile("runbooks/" + r.PathValue("name"))
	if err != nil {
		admin.Respond(w, http.StatusNotFound, admin.Failure{Text: "there is no such runbook", Code: "not_found"})
		return
	}
	newRunbook(string(body)).serve(w)
}

// newRunbook inserts the style into a generated page. The policy allows only this style: no script, form or connection.
func newRunbook(body string) document {
	style := paletteCSS + runbookCSS
	return document{
		body: strings.Replace(body, "{{style}}", style, 1),
		policy: fmt.Sprintf("default-src 'none'; style-src %s; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
			sourceHash(style)),
	}
}
