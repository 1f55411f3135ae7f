package apidocs

import (
	"bytes"
	"compress/gzip"
	"embed"
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"
	"sync"

	"opsgate/gateway/openapi"
)

// A Page is one file of the documentation. Callers must not modify it.
type Page struct {
	ContentType string
	CSP         string // Content-Security-Policy; empty if the page cannot run scripts
	Link        string // Link header; empty for none
	Body        []byte
	Gzip        []byte // Body, compressed
	Markdown    *Page  // the same in Markdown; nil for none
}

// pageCSP allows a page to load its scripts, its style, its icon, other pages and the search index
// from its own host, and to call the API there.
const pageCSP = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"frame-ancestors 'none'; base-uri 'none'; form-action 'none'"

const (
	typeHTML     = "text/html; charset=utf-8"
	typeMarkdown = "text/markdown; charset=utf-8"
	typeText     = "text/plain; charset=utf-8"
	typeCatalog  = `application/linkset+json; profile="https://www.rfc-editor.org/info/rfc9727"`
)

// types has the content type of files by the end of their name. A path that ends with a slash is
// HTML.
var types = map[string]string{
	"": typeHTML, ".md": typeMarkdown, ".txt": typeText,
	".json": "application/json; charset=utf-8", ".yaml": "application/yaml; charset=utf-8",
	".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml",
}

// rendered is a JSON object of the pages by path, written by apidocsgen. Rendering when the gateway
// is built, not when it runs, keeps the template packages out of it: they find methods by name, and
// with them the linker keeps every exported method.
//
//go:embed pages.json.gz
var rendered []byte

//go:embed static
var staticFiles embed.FS

// CatalogPath is the path of the API catalog (RFC 9727), a set of links (RFC 9264).
const CatalogPath = "/.well-known/api-catalog"

// Pages are all pages of a gateway.
type Pages struct {
	// made builds the pages at the first request, so that a gateway without such requests does not
	// keep them in memory.
	made func() map[string]Page
}

// New returns the pages of an API with a base URL. If it is "", links are relative, and calls have
// [openapi.PlaceholderURL], which the script of the pages replaces by the base URL of the page.
func New(base string) *Pages {
	return &Pages{made: sync.OnceValue(func() map[string]Page {
		made, err := makePages(base)
		if err != nil {
			panic(fmt.Sprintf("apidocs: the embedded pages are invalid: %v", err))
		}
		return made
	})}
}

// Lookup returns the page at a path: /openapi.json, /openapi.yaml, /llms.txt, /llms-full.txt,
// CatalogPath, or one below /docs/. ok is false if there is none.
func (p *Pages) Lookup(path string) (page Page, ok bool) {
	page, ok = p.made()[path]
	return page, ok
}

func makePages(base string) (map[string]Page, error) {
	bodies, err := readPages(rendered)
	if err != nil {
		return nil, err
	}
	bodies["/openapi.yaml"] = string(openapi.YAML())
	for path, file := range map[string]string{
		"/docs/docs.css": "docs.css", "/docs/docs.js": "docs.js", "/docs/try.js": "try.js", "/docs/icon.svg": "icon.svg",
		CatalogPath: "api-catalog.json",
	} {
		body, err := staticFiles.ReadFile("static/" + file)
		if err != nil {
			return nil, err
		}
		bodies[path] = string(body)
	}
	made := make(map[string]Page)
	for p, body := range bodies {
		page := Page{ContentType: types[path.Ext(p)], Body: []byte(withBase(p, body, base))}
		if !slices.Contains([]string{".md", ".txt", ".json", ".yaml"}, path.Ext(p)) {
			page.CSP = pageCSP
		}
		if p == CatalogPath {
			page.ContentType, page.CSP, page.Link = typeCatalog, "", "<"+CatalogPath+`>; rel="api-catalog"`
		}
		made[p] = page
	}
	if err := compress(made); err != nil {
		return nil, err
	}
	for p, page := range made {
		if markdown, ok := made[markdownPath(p)]; ok {
			page.Markdown = &markdown
			made[p] = page
		}
	}
	return made, nil
}

// markdownPath returns the path of the Markdown form of an HTML page.
func markdownPath(p string) string {
	switch {
	case p == "/docs/":
		return "/docs/index.md"
	case strings.HasSuffix(p, "/"):
		return strings.TrimSuffix(p, "/") + ".md"
	}
	return ""
}

// withBase returns the page at a path with the base URL. Without one, the page is as it is
// embedded, except that the OpenAPI document and the catalog are for programs, which resolve
// relative links.
func withBase(path, body, base string) string {
	switch {
	case strings.HasSuffix(path, ".js"):
		return body // docs.js has the placeholder itself
	case base != "":
		return strings.ReplaceAll(body, openapi.PlaceholderURL, base)
	case strings.HasPrefix(path, "/openapi.") || path == CatalogPath:
		return strings.NewReplacer(openapi.PlaceholderURL+"/", "/", openapi.PlaceholderURL, "/").Replace(body)
	}
	return body
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

// compress sets Gzip of each page.
func compress(made map[string]Page) error {
	w, err := gzip.NewWriterLevel(nil, gzip.BestCompression)
	if err != nil {
		return err
	}
	for path, page := range made {
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
