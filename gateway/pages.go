package gateway

import (
	"bytes"
	"cmp"
	"net/http"
	"sync"

	"github.com/gin-gonic/gin"

	"opsgate/gateway/apidocs"
	"opsgate/gateway/baseurl"
)

const docsPath = "/docs/"

// addPages registers the OpenAPI document, the documentation, llms.txt, and the redirects to the documentation (docs/contract.md,
// "Requests"). They need no token. The redirect of / is temporary, so that / can become a page later.
func (g *Gateway) addPages(e *gin.Engine) {
	for path, handle := range map[string]Handler{
		"/openapi.json": showPage, "/openapi.yaml": showPage, "/llms.txt": showPage, docsPath + "*asset": showPage,
		"/docs": redirectToDocs(http.StatusPermanentRedirect), "/": redirectToDocs(http.StatusTemporaryRedirect),
	} {
		row := Route{ID: "documentation", Method: http.MethodGet, Path: path, Scope: anyToken, Handle: handle}
		serve := g.serve(g.bind(row, publicStages))
		e.GET(path, serve)
		e.HEAD(path, serve)
		e.OPTIONS(path, g.serve(g.bind(optionsRow(path, http.MethodGet, http.MethodHead), publicStages)))
	}
}

func redirectToDocs(status int) Handler {
	return func(*Request) (Reply, error) { return Reply{redirect: status}, nil }
}

func showPage(r *Request) (Reply, error) {
	page, ok := apidocs.Lookup(r.http().URL.Path)
	if !ok {
		return Reply{}, noRoute()
	}
	return Reply{page: &page}, nil
}

// maxHostPages is the size in bytes from which no further pages are kept for Hosts of requests: clients can send any number of Hosts.
const maxHostPages = 8 << 20

// documentation inserts the base URL of the API into pages and keeps the results, compressed (docs/api-docs.md, "The base URL").
type documentation struct {
	publicURL string // "" if the base URL is that of the request

	mu   sync.Mutex
	kept map[pageKey]*apidocs.Page
	size int // of kept
}

type pageKey struct{ base, path string }

func newDocumentation(publicURL string) *documentation {
	return &documentation{publicURL: publicURL, kept: make(map[pageKey]*apidocs.Page)}
}

// forRequest returns the page at the path of a request with the base URL, and whether it depends on the Host of the request. If the Host is
// not valid, the page has the placeholder.
func (d *documentation) forRequest(r *Request, page *apidocs.Page) (shown *apidocs.Page, ofHost bool) {
	if page.Gzip != nil { // it has no base URL
		return page, false
	}
	req := r.http()
	base, ofHost := d.publicURL, d.publicURL == ""
	if ofHost {
		base = cmp.Or(baseurl.OfHost(req.Host, req.TLS != nil), baseurl.Placeholder)
	}
	key := pageKey{base, req.URL.Path}
	d.mu.Lock()
	shown, full := d.kept[key], ofHost && d.size >= maxHostPages
	d.mu.Unlock()
	if shown != nil {
		return shown, ofHost
	}
	made := *page
	made.Body = bytes.ReplaceAll(page.Body, []byte(baseurl.Placeholder), []byte(base))
	if full {
		made.Gzip = nil // compression takes several times as long as the rest of the request
		return &made, ofHost
	}
	made.Gzip = bytes.Clone(r.compress(made.Body))
	d.keep(key, &made)
	return &made, ofHost
}

func (d *documentation) keep(key pageKey, page *apidocs.Page) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.kept[key] == nil {
		d.kept[key] = page
		d.size += len(page.Body) + len(page.Gzip)
	}
}
