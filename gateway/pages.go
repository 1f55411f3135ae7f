package gateway

import (
	"net/http"

	"github.com/gin-gonic/gin"

	"opsgate/gateway/openapi"
)

// addPages serves the description of the API and its documentation page, to anybody.
func (g *Gateway) addPages(e *gin.Engine) {
	for _, path := range []string{"/openapi.json", "/openapi.yaml", "/docs/*asset"} {
		serve := g.serve(g.newRoute(Route{ID: "documentation", Handle: showPage}, nil))
		e.GET(path, serve)
		e.HEAD(path, serve)
		row := Route{ID: "options", Handle: options([]string{http.MethodGet, http.MethodHead, http.MethodOptions})}
		e.OPTIONS(path, g.serve(g.newRoute(row, nil)))
	}
}

func showPage(r *Request) (Reply, error) {
	page, ok := openapi.Lookup(r.http().URL.Path)
	if !ok {
		return Reply{}, notFound(errNoRoute)
	}
	return Reply{page: &page}, nil
}
