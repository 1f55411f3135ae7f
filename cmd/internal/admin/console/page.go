package console

import (
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"fmt"
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

// A document is the page as it is sent.
type document struct {
	body   string
	policy string
}

// newDocument puts style and script where the page has their marks, and names their hashes in the policy: a browser runs these two
// and nothing else, whatever finds its way into the page. The policy lets the page send nothing anywhere but to its own listener,
// not even by a form.
func newDocument() document {
	body := strings.NewReplacer("{{style}}", pageCSS, "{{script}}", pageJS).Replace(pageHTML)
	policy := fmt.Sprintf("default-src 'none'; script-src %s; style-src %s; img-src data:; connect-src 'self'; base-uri 'none';"+
		" form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'",
		hash(pageJS), hash(pageCSS))
	return document{body: body, policy: policy}
}

func hash(source string) string {
	sum := sha256.Sum256([]byte(source))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}

func (d document) serve(w http.ResponseWriter) {
	for name, value := range map[string]string{
		"Content-Type":                 "text/html; charset=utf-8",
		"Content-Security-Policy":      d.policy,
		"Cache-Control":                "no-store",
		"X-Content-Type-Options":       "nosniff",
		"X-Frame-Options":              "DENY",
		"Referrer-Policy":              "no-referrer",
		"Cross-Origin-Opener-Policy":   "same-origin",
		"Cross-Origin-Resource-Policy": "same-origin",
	} {
		w.Header().Set(name, value)
	}
	_, _ = w.Write([]byte(d.body)) // the reader is gone: nobody is left to tell
}
