package gateway

import (
	"net/http"
	"slices"
	"strings"

	"github.com/gin-gonic/gin"
)

// newEngine lays the route table into Gin, each row as serve has it. What Gin would do on its own is off: redirects, cleaning of
// paths, error bodies.
func (g *Gateway) newEngine(rows []Route, serve func(*route) gin.HandlerFunc) *gin.Engine {
	gin.SetMode(gin.ReleaseMode) // Gin's only switch for not printing to standard output is global
	e := gin.New()
	e.RedirectTrailingSlash = false
	e.RedirectFixedPath = false
	e.HandleMethodNotAllowed = true
	e.ForwardedByClientIP = false // clientaddr.go reads forwarding headers, all lines of them
	// Routes are matched on the path as it was sent, so that an encoded slash separates nothing. What is percent-encoded
	// without need matches no route of ours.
	e.UseRawPath = true
	e.UnescapePathValues = false

	methods := make(map[string][]string)
	for _, row := range rows {
		served := serve(g.newRoute(row, apiStages))
		e.Handle(row.Method, row.Path, served)
		methods[row.Path] = append(methods[row.Path], row.Method)
		if row.Method == http.MethodGet {
			e.HEAD(row.Path, served)
			methods[row.Path] = append(methods[row.Path], http.MethodHead)
		}
	}
	for path, served := range methods {
		e.OPTIONS(path, serve(g.newRoute(optionsRow(path, served...), callerStages)))
	}
	g.addPages(e, serve)

	row := Route{ID: "unmatched"}
	inside, outside := serve(g.newRoute(row, callerStages)), serve(g.newRoute(row, strangerStages))
	none := func(c *gin.Context) {
		if path := c.Request.URL.Path; path == "/v1" || strings.HasPrefix(path, "/v1/") {
			inside(c)
		} else {
			outside(c)
		}
	}
	e.NoRoute(none)
	e.NoMethod(none)
	return e
}

// optionsRow answers which methods a path takes.
func optionsRow(path string, methods ...string) Route {
	reply := Reply{allow: allowValue(append(methods, http.MethodOptions))}
	return Route{
		ID: "options", Method: http.MethodOptions, Path: path, Scope: AnyToken,
		Handle: func(*Request) (Reply, error) { return reply, nil },
	}
}

func allowValue(methods []string) string {
	slices.Sort(methods)
	return strings.Join(methods, ", ")
}
