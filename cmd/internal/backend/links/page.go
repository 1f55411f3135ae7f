package links

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"net/http"
)

//go:embed page.html
var pageHTML string

//go:embed style.css
var style string

var pageTemplate = template.Must(template.New("page").Parse(pageHTML)) //nolint:gochecknoglobals // constant

// A page is what a handler shows.
type page struct {
	Page          string // the name of the status page, if it is to be shown
	Heading, Text string
	Button        string // if there is something to do
}

func (s subscription) confirmed() page {
	return page{
		Page: s.page, Heading: "Subscription confirmed",
		Text: fmt.Sprintf("Notifications of %s are sent to %s. Each of them has a link to unsubscribe.", s.page, masked(s.Address)),
	}
}

// write writes a page.
func write(w http.ResponseWriter, status int, p page) {
	var text bytes.Buffer
	err := pageTemplate.Execute(&text, struct {
		page
		Style template.CSS
	}{p, template.CSS(style)}) //nolint:gosec // a file of this package
	if err != nil {
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write(text.Bytes()) // fails if the client is gone
}

// secured sets the headers of every response: no scripts, frames or other requests, no copy in a cache, and the token in no Referer.
func secured(next http.Handler) http.Handler {
	hash := sha256.Sum256([]byte(style))
	policy := "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(hash[:]) +
		"'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cache-Control", "no-store")
		h.Set("X-Content-Type-Options", "nosniff")
		next.ServeHTTP(w, r)
	})
}
