package gateway

import (
	"net/http"

	"github.com/gin-gonic/gin"

	"opsgate/gateway/openapi"
)

// addPages serves the description of the API and its documentation page, to anybody.
func (g *Gateway) addPages(e *gin.Engine, serve func(*route) gin.HandlerFunc) {
	for _, path := range []string{"/openapi.json", "/openapi.yaml", "/docs/*asset"} {
		row := Route{ID: "documentation", Method: http.MethodGet, Path: path, Scope: AnyToken, Handle: showPage}
		served := serve(g.newRoute(row, strangerStages))
		e.GET(path, served)
		e.HEAD(path, served)
		e.OPTIONS(path, serve(g.newRoute(optionsRow(path, http.MethodGet, http.MethodHead), strangerStages)))
	}
}

func showPage(r *Request) (Reply, error) {
	page, ok := openapi.Lookup(r.http().URL.Path)
	if !ok {
		return Reply{}, notFound(errNoRoute).because(causeRoute)
	}
	return Reply{page: &page}, nil
}
