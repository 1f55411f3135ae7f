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

// A Page is one file of the documentation. All of it is public, and none of it may be modified.
type Page struct {
	ContentType string
	CSP         string // Content-Security-Policy; empty where nothing can run
	Body        []byte
	Gzip        []byte // Body in gzip, made ahead: the largest page takes too long to compress for each caller
}

// docsCSP lets the documentation page run its own scripts, use its own styles, and call the API that it is served by.
// Swagger UI draws its icons from data: addresses in its style sheet.
const docsCSP = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
	"frame-ancestors 'none'; base-uri 'none'; form-action 'none'"

const (
	html       = "text/html; charset=utf-8"
	css        = "text/css; charset=utf-8"
	javaScript = "text/javascript; charset=utf-8"
)

//go:embed docs
var ownFiles embed.FS

// Lookup returns the page at a path: /openapi.json, /openapi.yaml, /docs/, or what /docs/ consists of. ok is false where there is
// none.
func Lookup(path string) (page Page, ok bool) {
	page, ok = pages()[path]
	return page, ok
}

// pages are made at the first request for one: a gateway that is never asked does not keep them in memory.
//
//nolint:gochecknoglobals // a memo of constants: it is the same whoever asks first
var pages = sync.OnceValue(func() map[string]Page {
	made, err := makePages()
	if err != nil {
		panic(fmt.Sprintf("openapi: the pages, which are part of this program, are broken: %v", err))
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

// addSwaggerUI adds the files of Swagger UI, which come compressed.
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
