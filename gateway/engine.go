package gateway

import (
	"net/http"
	"slices"
	"strings"

	"github.com/gin-gonic/gin"
)

// newEngine registers the rows of the API and the documentation pages with Gin. handlerFor returns
// the handler of a route. Gin's own redirects, path cleaning and error bodies are off.
func (g *Gateway) newEngine(handlerFor func(*boundRoute) gin.HandlerFunc) *gin.Engine {
	gin.SetMode(gin.ReleaseMode) // global, but nothing else stops Gin from printing to standard output
	e := gin.New()
	e.RedirectTrailingSlash = false
	e.RedirectFixedPath = false
	e.HandleMethodNotAllowed = true
	e.ForwardedByClientIP = false // netaddr.ClientOf reads all lines of forwarding headers
	// Gin matches the path as the client sent it, so an encoded slash is not a separator.
	e.UseRawPath = true
	e.UnescapePathValues = false

	methods := make(map[string][]string)
	for _, row := range g.rows {
		rt := g.bind(row, apiStages)
		e.Handle(row.Method, row.Path, handlerFor(rt))
		methods[row.Path] = append(methods[row.Path], row.Method)
		if row.Method == http.MethodGet {
			e.HEAD(row.Path, handlerFor(rt))
			methods[row.Path] = append(methods[row.Path], http.MethodHead)
		}
	}
	for path, allowed := range methods {
		e.OPTIONS(path, handlerFor(g.bind(optionsRow(path, allowed...), authenticatedStages)))
	}
	g.addPages(e, handlerFor)

	row := Route{ID: "unmatched"} // without a handler: checkRoute returns a 404 or 405
	apiUnmatched, publicUnmatched := handlerFor(g.bind(row, authenticatedStages)), handlerFor(g.bind(row, publicStages))
	unmatched := func(c *gin.Context) {
		if path := c.Request.URL.Path; path == "/v1" || strings.HasPrefix(path, "/v1/") {
			apiUnmatched(c)
		} else {
			publicUnmatched(c)
		}
	}
	e.NoRoute(unmatched)
	e.NoMethod(unmatched)
	return e
}

func optionsRow(path string, methods ...string) Route {
	reply := Reply{allow: allowValue(append(methods, http.MethodOptions))}
	return Route{
		ID: "options", Method: http.MethodOptions, Path: path, Scope: anyToken,
		Handle: func(*Request) (Reply, error) { return reply, nil },
	}
}

func allowValue(methods []string) string {
	slices.Sort(methods)
	return strings.Join(methods, ", ")
}
