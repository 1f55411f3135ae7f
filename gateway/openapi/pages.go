package openapi

import (
	"bytes"
	"compress/gzip"
	"embed"
	"fmt"
	"io"
	"io/fs"
	"sync"

	"github.com/swaggest/swgui/v5/static"
)

// A Page is one file of the documentation. Callers must not modify it.
type Page struct {
	ContentType string
	CSP         string // Content-Security-Policy; empty if the page cannot run scripts
	Body        []byte
	Gzip        []byte // Body compressed in advance, as the largest page takes too long for each request; nil if it is not compressed
}

// docsCSP allows the documentation page to load scripts and styles from its own host and to call the API there. The style sheet of
// Swagger UI has icons in data: URLs.
const docsCSP = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
	"frame-ancestors 'none'; base-uri 'none'; form-action 'none'"

const (
	html       = "text/html; charset=utf-8"
	css        = "text/css; charset=utf-8"
	javaScript = "text/javascript; charset=utf-8"
)

//go:embed docs
var ownFiles embed.FS

// Lookup returns the page at a path: /openapi.json, /openapi.yaml, /docs/, or a file below /docs/. ok is false if there is none.
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
		panic(fmt.Sprintf("openapi: the embedded pages are invalid: %v", err))
	}
	return made
})

func makePages() (map[string]Page, error) {
	made := map[string]Page{
		"/openapi.json": {ContentType: "application/json; charset=utf-8", Body: JSON()},
		"/openapi.yaml": {ContentType: "application/yaml; charset=utf-8", Body: YAML()},
	}
	for _, f := range []struct {
		path, contentType string
		files             fs.FS
		name              string
	}{
		{"/docs/", html, ownFiles, "docs/index.html"},
		{"/docs/docs.css", css, ownFiles, "docs/docs.css"},
		{"/docs/docs.js", javaScript, ownFiles, "docs/docs.js"},
		{"/docs/favicon-32x32.png", "image/png", static.FS, "favicon-32x32.png"},
	} {
		body, err := fs.ReadFile(f.files, f.name)
		if err != nil {
			return nil, fmt.Errorf("reading %s: %w", f.name, err)
		}
		made[f.path] = Page{ContentType: f.contentType, CSP: docsCSP, Body: body}
	}
	for path, page := range made {
		zipped, err := zip(page.Body)
		if err != nil {
			return nil, fmt.Errorf("compressing %s: %w", path, err)
		}
		page.Gzip = zipped
		made[path] = page
	}
	return made, addSwaggerUI(made)
}

// addSwaggerUI adds the files of Swagger UI, which are embedded compressed.
func addSwaggerUI(made map[string]Page) error {
	for name, contentType := range map[string]string{"swagger-ui.css": css, "swagger-ui-bundle.js": javaScript} {
		zipped, err := static.FS.ReadFile(name + ".gz")
		if err != nil {
			return fmt.Errorf("reading %s: %w", name, err)
		}
		body, err := unzip(zipped)
		if err != nil {
			return fmt.Errorf("decompressing %s: %w", name, err)
		}
		made["/docs/"+name] = Page{ContentType: contentType, CSP: docsCSP, Body: body, Gzip: zipped}
	}
	return nil
}

func zip(body []byte) ([]byte, error) {
	var b bytes.Buffer
	w, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	if _, err := w.Write(body); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

func unzip(zipped []byte) ([]byte, error) {
	r, err := gzip.NewReader(bytes.NewReader(zipped))
	if err != nil {
		return nil, err
	}
	return io.ReadAll(r)
}
