package gateway

import (
	"bytes"
	"cmp"
	linked "container/list"
	"net/http"
	"sync"
	"time"

	"github.com/gin-gonic/gin"

	"opsgate/gateway/apidocs"
	"opsgate/gateway/baseurl"
)

const (
	docsPath   = "/docs/"
	errorsPath = docsPath + "errors/" // each code has an anchor there

	wellKnownPath = "/.well-known" // RFC 8615
)

// addPages registers the OpenAPI document, the documentation, llms.txt, the well-known URIs, and the redirects to the documentation
// (docs/integrate/contract.md, "Order of checks"); handlerFor returns the handler of each. They need no token. The redirect of / is
// temporary, so that / can become a page later.
func (g *Gateway) addPages(e *gin.Engine, handlerFor func(*boundRoute) gin.HandlerFunc) {
	for path, handle := range map[string]Handler{
		"/openapi.json": showPage, "/openapi.yaml": showPage, "/llms.txt": showPage, "/llms-full.txt": showPage, docsPath + "*asset": showPage,
		apidocs.CatalogPath: showPage, wellKnownPath + "/security.txt": showSecurityContact,
		"/docs": redirectToDocs(http.StatusPermanentRedirect), "/": redirectToDocs(http.StatusTemporaryRedirect),
	} {
		// Only Explain reads the scope: publicStages check neither token nor scope.
		row := Route{ID: "documentation", Method: http.MethodGet, Path: path, Scope: anyToken, Handle: handle}
		handler := handlerFor(g.bind(row, publicStages))
		e.GET(path, handler)
		e.HEAD(path, handler)
		e.OPTIONS(path, handlerFor(g.bind(optionsRow(path, http.MethodGet, http.MethodHead), publicStages)))
	}
}

func redirectToDocs(status int) Handler {
	return func(*Request) (Reply, error) { return Reply{redirect: status}, nil }
}

func showPage(r *Request) (Reply, error) {
	path := r.http().URL.Path
	page, ok := apidocs.Lookup(path)
	if !ok {
		return Reply{}, noRoute(path)
	}
	return Reply{page: &page}, nil
}

// contactExpiry is the time for which security.txt is valid. RFC 9116 recommends less than a year. It is counted from today,
// because the contact is that of the current configuration.
const contactExpiry = 90 * 24 * time.Hour

// showSecurityContact returns the contact for reports of vulnerabilities (RFC 9116), or a 404 if there is none.
func showSecurityContact(r *Request) (Reply, error) {
	contact := r.gateway.options.SecurityContact
	if contact == "" {
		return Reply{}, noRoute(r.http().URL.Path)
	}
	expires := r.start.UTC().Truncate(24 * time.Hour).Add(contactExpiry)
	return Reply{text: "Contact: " + contact + "\nExpires: " + expires.Format(time.RFC3339) + "\n"}, nil
}

const (
	// maxHostPageBytes bounds the kept pages, because clients can send any number of Hosts. A page is added only while the total is below it,
	// so the last one may exceed it.
	maxHostPageBytes = 8 << 20
	// minIdle is the time without a request after which a page may be evicted. Compressing a page takes several times as long as the rest of
	// a request, so one request compresses a page, and only if there is room for it. For clients that invent Hosts, at most maxHostPageBytes
	// and one page are therefore compressed per minIdle.
	minIdle = time.Second
)

// documentation inserts the base URL of the API into pages and keeps the results, compressed (docs/develop/api-docs.md, "The base URL").
type documentation struct {
	publicURL string // "" if the base URL is that of the request

	mu    sync.Mutex
	kept  map[pageKey]*linked.Element // of byUse
	byUse linked.List                 // of *keptPage, the most recently used first
	size  int                         // of all, in bytes
}

type pageKey struct{ base, path string }

type keptPage struct {
	key  pageKey
	page *apidocs.Page // nil while a request compresses it
	size int           // in bytes; while the page is nil, that of its body without the base URL
	used time.Time
}

func newDocumentation(publicURL string) *documentation {
	return &documentation{publicURL: publicURL, kept: make(map[pageKey]*linked.Element)}
}

// forRequest returns the page at the path of a request with the base URL, and reports whether it depends on the Host.
// If the Host is not valid, the page has the placeholder.
func (d *documentation) forRequest(r *Request, page *apidocs.Page) (shown *apidocs.Page, perHost bool) {
	if page.Gzip != nil { // compressed in advance, because it has no base URL
		return page, false
	}
	req := r.http()
	base, perHost := d.publicURL, d.publicURL == ""
	if perHost {
		base = cmp.Or(baseurl.OfHost(req.Host, req.TLS != nil), baseurl.Placeholder)
	}
	key := pageKey{base, req.URL.Path}
	shown, added := d.findOrAdd(key, len(page.Body), r.start)
	if shown != nil {
		return shown, perHost
	}
	made := *page
	made.Body = bytes.ReplaceAll(page.Body, []byte(baseurl.Placeholder), []byte(base))
	if added != nil {
		made.Gzip = bytes.Clone(r.compress(made.Body))
		d.setPage(added, &made)
	}
	return &made, perHost
}

// findOrAdd returns the kept page. If there is none, it evicts pages to make room for one of the size, and if there is room, it adds an
// entry, whose page the caller must compress and set. Both results are nil if there is no room, or another request compresses the page.
func (d *documentation) findOrAdd(key pageKey, size int, now time.Time) (page *apidocs.Page, added *keptPage) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if found := d.kept[key]; found != nil {
		p := pageOf(found)
		p.used = now
		d.byUse.MoveToFront(found)
		return p.page, nil
	}
	for d.size >= maxHostPageBytes {
		oldest := d.byUse.Back()
		p := pageOf(oldest)
		if now.Sub(p.used) < minIdle {
			return nil, nil
		}
		d.byUse.Remove(oldest)
		delete(d.kept, p.key)
		d.size -= p.size
	}
	added = &keptPage{key: key, size: size, used: now}
	d.kept[key] = d.byUse.PushFront(added)
	d.size += size
	return nil, added
}

// setPage sets the page of an added entry. It does nothing if the entry has been evicted meanwhile.
func (d *documentation) setPage(p *keptPage, page *apidocs.Page) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if kept := d.kept[p.key]; kept == nil || pageOf(kept) != p {
		return
	}
	d.size -= p.size
	p.page, p.size = page, len(page.Body)+len(page.Gzip)
	d.size += p.size
}

// pageOf returns the page of an element of byUse.
func pageOf(e *linked.Element) *keptPage {
	p, _ := e.Value.(*keptPage)
	return p
}
