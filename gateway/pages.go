package gateway

import (
	"net/http"
	"time"

	"github.com/gin-gonic/gin"

	"opsgate/gateway/apidocs"
)

const (
	docsPath   = "/docs/"
	errorsPath = docsPath + "errors/" // each code has an anchor there

	wellKnownPath = "/.well-known" // RFC 8615
)

// addPages registers the OpenAPI document, the documentation, llms.txt, the well-known URIs, and
// the redirects to the documentation (docs/integrate/contract.md, "Order of checks"). handlerFor
// returns the handler of a route. No page needs a token. The redirect of / is temporary, so that /
// can become a page later.
func (g *Gateway) addPages(e *gin.Engine, handlerFor func(*boundRoute) gin.HandlerFunc) {
	for path, handle := range map[string]Handler{
		"/openapi.json": showPage, "/openapi.yaml": showPage, "/llms.txt": showPage, "/llms-full.txt": showPage,
		docsPath + "*asset": showPage,
		apidocs.CatalogPath: showPage, wellKnownPath + "/security.txt": showSecurityContact,
		"/docs": redirectToDocs(http.StatusPermanentRedirect), "/": redirectToDocs(http.StatusTemporaryRedirect),
	} {
		// The scope is only for Explain: publicStages check neither token nor scope.
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
	page, ok := r.gateway.documentation.Lookup(path)
	if !ok {
		return Reply{}, noRoute(path)
	}
	return Reply{page: &page}, nil
}

// contactExpiry is the time for which security.txt is valid, counted from today, because the
// contact comes from the current configuration. RFC 9116 recommends less than a year.
const contactExpiry = 90 * 24 * time.Hour

// showSecurityContact returns the contact for reports of vulnerabilities (RFC 9116), or a 404 if
// there is none.
func showSecurityContact(r *Request) (Reply, error) {
	contact := r.gateway.options.SecurityContact
	if contact == "" {
		return Reply{}, noRoute(r.http().URL.Path)
	}
	expires := r.start.UTC().Truncate(24 * time.Hour).Add(contactExpiry)
	return Reply{text: "Contact: " + contact + "\nExpires: " + expires.Format(time.RFC3339) + "\n"}, nil
}
