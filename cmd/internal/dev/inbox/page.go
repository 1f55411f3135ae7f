package inbox

import (
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"fmt"
	"html"
	"net/http"
	"strings"
)

var (
	//go:embed page/page.html
	pageHTML string
	//go:embed page/page.css
	pageCSS string
	//go:embed page/page.js
	pageJS string
)

// document is the complete page with its Content-Security-Policy.
type document struct{ body, policy string }

// newDocument inserts style, script and the texts of the system into the page. The policy allows only these two, by hash, connections to
// the page's own listener, and frames with emails from there; it forbids forms.
func newDocument(s System) document {
	body := strings.NewReplacer("{{style}}", pageCSS, "{{script}}", pageJS, "{{sandbox}}", sandbox,
		"{{documentation}}", html.EscapeString(s.Documentation), "{{example}}", html.EscapeString(s.Example)).Replace(pageHTML)
	policy := fmt.Sprintf("default-src 'none'; script-src %s; style-src %s; img-src data:; connect-src 'self'; frame-src 'self';"+
		" base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'",
		sourceHash(pageJS), sourceHash(pageCSS))
	return document{body: body, policy: policy}
}

// sourceHash returns the hash of an inline source in the syntax of a Content-Security-Policy.
func sourceHash(source string) string {
	sum := sha256.Sum256([]byte(source))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}

func (d document) serve(w http.ResponseWriter) {
	secure(w)
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Security-Policy", d.policy)
	_, _ = w.Write([]byte(d.body)) // fails only if the client has disconnected
}
