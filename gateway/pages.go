package gateway

import (
	"net/http"

	"github.com/gin-gonic/gin"

	"opsgate/gateway/openapi"
)

const docsPath = "/docs/"

// addPages serves the description of the API and its documentation page, without a token, and redirects to that page (decisions,
// "Errors"). The redirect of / is temporary: another page may stand there one day.
func (g *Gateway) addPages(e *gin.Engine, serve func(*route) gin.HandlerFunc) {
	for path, handle := range map[string]Handler{
		"/openapi.json": showPage, "/openapi.yaml": showPage, docsPath + "*asset": showPage,
		"/docs": redirectToDocs(http.StatusPermanentRedirect), "/": redirectToDocs(http.StatusTemporaryRedirect),
	} {
		row := Route{ID: "documentation", Method: http.MethodGet, Path: path, Scope: AnyToken, Handle: handle}
		served := serve(g.newRoute(row, strangerStages))
		e.GET(path, served)
		e.HEAD(path, served)
		e.OPTIONS(path, serve(g.newRoute(optionsRow(path, http.MethodGet, http.MethodHead), strangerStages)))
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
