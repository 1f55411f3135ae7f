package apidocs

import (
	"bytes"
	"compress/gzip"
	"embed"
	"fmt"
	"sync"

	"opsgate/gateway/apidocs/tryit"
	"opsgate/gateway/baseurl"
	"opsgate/gateway/openapi"
)

// A Page is one file of the documentation. Callers must not modify it.
type Page struct {
	ContentType string
	CSP         string // Content-Security-Policy; empty if the page cannot run scripts
	Body        []byte
	Gzip        []byte // Body compressed in advance, as the largest page takes too long for each request; nil if Body has the base URL
}

// pageCSP allows a page to load its script, its style, its icon and the search index from its own host.
const pageCSP = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"frame-ancestors 'none'; base-uri 'none'; form-action 'none'"

const (
	typeHTML     = "text/html; charset=utf-8"
	typeMarkdown = "text/markdown; charset=utf-8"
	typeText     = "text/plain; charset=utf-8"
	typeJSON     = "application/json; charset=utf-8"
)

//go:embed static
var staticFiles embed.FS

// Lookup returns the page at a path: /openapi.json, /openapi.yaml, /llms.txt, or one below /docs/. ok is false if there is none.
func Lookup(path string) (page Page, ok bool) {
	page, ok = pages()[path]
	return page, ok
}

// pages builds the pages at the first request, so that a gateway without such requests does not keep them in memory.
//
//nolint:gochecknoglobals // a cache of constants
var pages = sync.OnceValue(func() map[string]Page {
	made, err := makePages()
	if err != nil {
		panic(fmt.Sprintf("apidocs: the embedded pages are invalid: %v", err))
	}
	return made
})

func makePages() (map[string]Page, error) {
	document := openapi.JSON()
	made := map[string]Page{
		"/openapi.json": {ContentType: typeJSON, Body: document},
		"/openapi.yaml": {ContentType: "application/yaml; charset=utf-8", Body: openapi.YAML()},
	}
	for name, contentType := range map[string]string{
		"docs.css": "text/css; charset=utf-8", "docs.js": "text/javascript; charset=utf-8", "icon.svg": "image/svg+xml",
	} {
		body, err := staticFiles.ReadFile("static/" + name)
		if err != nil {
			return nil, err
		}
		made["/docs/"+name] = Page{ContentType: contentType, CSP: pageCSP, Body: body}
	}
	s, err := newSite(document)
	if err != nil {
		return nil, err
	}
	if err := s.addTo(made); err != nil {
		return nil, err
	}
	files, err := tryit.Files()
	if err != nil {
		return nil, err
	}
	for _, f := range files {
		made[f.Path] = Page{ContentType: f.ContentType, CSP: f.CSP, Body: f.Body, Gzip: f.Gzip}
	}
	return made, compress(made)
}

// compress sets Gzip of each page that has none and no base URL. The gateway compresses the others after it has replaced that.
func compress(made map[string]Page) error {
	w, err := gzip.NewWriterLevel(nil, gzip.BestCompression)
	if err != nil {
		return err
	}
	for path, page := range made {
		if page.Gzip != nil || bytes.Contains(page.Body, []byte(baseurl.Placeholder)) {
			continue
		}
		var b bytes.Buffer
		w.Reset(&b) // a new writer would allocate 800 KB for each page
		if _, err := w.Write(page.Body); err != nil {
			return fmt.Errorf("compressing %s: %w", path, err)
		}
		if err := w.Close(); err != nil {
			return fmt.Errorf("compressing %s: %w", path, err)
		}
		page.Gzip = b.Bytes()
		made[path] = page
	}
	return nil
}
