package apidocs

import (
	"bytes"
	"compress/gzip"
	"embed"
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"sync"

	"opsgate/gateway/baseurl"
	"opsgate/gateway/openapi"
)

// A Page is one file of the documentation. Callers must not modify it.
type Page struct {
	ContentType string
	CSP         string // Content-Security-Policy; empty if the page cannot run scripts
	Link        string // Link header; empty for none
	Body        []byte
	Gzip        []byte // Body compressed in advance; nil if Body has the base URL
}

// pageCSP allows a page to load its scripts, its style, its icon, other pages and the search index from its own host, and to call the API
// there.
const pageCSP = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"frame-ancestors 'none'; base-uri 'none'; form-action 'none'"

const (
	typeHTML     = "text/html; charset=utf-8"
	typeMarkdown = "text/markdown; charset=utf-8"
	typeText     = "text/plain; charset=utf-8"
	typeCatalog  = `application/linkset+json; profile="https://www.rfc-editor.org/info/rfc9727"`
)

// types has the content type of files by the end of their name. A path that ends with a slash is HTML.
var types = map[string]string{
	"": typeHTML, ".md": typeMarkdown, ".txt": typeText,
	".json": "application/json; charset=utf-8", ".yaml": "application/yaml; charset=utf-8",
	".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml",
}

// rendered is a JSON object of the pages by path, written by apidocsgen. Rendering when the gateway is built, not when it runs, keeps the
// template packages out of it: they find methods by name, and with them the linker keeps every exported method.
//
//go:embed pages.json.gz
var rendered []byte

//go:embed static
var staticFiles embed.FS

// CatalogPath is the path of the API catalog (RFC 9727), a set of links (RFC 9264).
const CatalogPath = "/.well-known/api-catalog"

// Lookup returns the page at a path: /openapi.json, /openapi.yaml, /llms.txt, /llms-full.txt, CatalogPath, or one below /docs/. ok is false
// if there is none.
func Lookup(path string) (page Page, ok bool) {
	page, ok = pages()[path]
	return page, ok
}

// pages builds the pages at the first request, so that a gateway without such requests does not keep them in memory.
var pages = sync.OnceValue(func() map[string]Page {
	made, err := makePages()
	if err != nil {
		panic(fmt.Sprintf("apidocs: the embedded pages are invalid: %v", err))
	}
	return made
})

func makePages() (map[string]Page, error) {
	bodies, err := readPages(rendered)
	if err != nil {
		return nil, err
	}
	bodies["/openapi.yaml"] = string(openapi.YAML())
	for _, name := range []string{"docs.css", "docs.js", "try.js", "icon.svg"} {
		body, err := staticFiles.ReadFile("static/" + name)
		if err != nil {
			return nil, err
		}
		bodies["/docs/"+name] = string(body)
	}
	made := make(map[string]Page)
	for p, body := range bodies {
		page := Page{ContentType: types[path.Ext(p)], Body: []byte(body)}
		if !slices.Contains([]string{".md", ".txt", ".json", ".yaml"}, path.Ext(p)) {
			page.CSP = pageCSP
		}
		made[p] = page
	}
	catalog, err := staticFiles.ReadFile("static/api-catalog.json")
	if err != nil {
		return nil, err
	}
	made[CatalogPath] = Page{
		ContentType: typeCatalog, Link: "<" + CatalogPath + `>; rel="api-catalog"`, Body: catalog,
	}
	return made, compress(made)
}

// readPages returns the rendered pages.
func readPages(zipped []byte) (bodies map[string]string, err error) {
	r, err := gzip.NewReader(bytes.NewReader(zipped))
	if err != nil {
		return nil, fmt.Errorf("reading the rendered pages: %w", err)
	}
	if err := json.NewDecoder(r).Decode(&bodies); err != nil {
		return nil, fmt.Errorf("reading the rendered pages: %w", err)
	}
	return bodies, nil
}

// compress sets Gzip of each page without the base URL. The gateway compresses the others after it has replaced that.
func compress(made map[string]Page) error {
	w, err := gzip.NewWriterLevel(nil, gzip.BestCompression)
	if err != nil {
		return err
	}
	for path, page := range made {
		if bytes.Contains(page.Body, []byte(baseurl.Placeholder)) {
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
