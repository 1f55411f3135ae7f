package gateway

import (
	"net/http"

	"github.com/gin-gonic/gin"

	"opsgate/gateway/openapi"
)

const docsPath = "/docs/"

// addPages registers the OpenAPI document, its documentation page, and the redirects to that page (docs/contract.md, "Requests"). They
// need no token. The redirect of / is temporary, so that / can become a page later.
func (g *Gateway) addPages(e *gin.Engine) {
	for path, handle := range map[string]Handler{
		"/openapi.json": showPage, "/openapi.yaml": showPage, docsPath + "*asset": showPage,
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
	page, ok := openapi.Lookup(r.http().URL.Path)
	if !ok {
		return Reply{}, noRoute()
	}
	return Reply{page: &page}, nil
}
