package gateway

import (
	"net/http"
	"slices"
	"strings"

	"github.com/gin-gonic/gin"
)

// newEngine lays the route table into Gin. What Gin would do on its own is off: redirects, cleaning of paths, error bodies.
func (g *Gateway) newEngine() *gin.Engine {
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
	for _, row := range g.rows {
		serve := g.serve(g.newRoute(row, apiStages))
		e.Handle(row.Method, row.Path, serve)
		methods[row.Path] = append(methods[row.Path], row.Method)
		if row.Method == http.MethodGet {
			e.HEAD(row.Path, serve)
			methods[row.Path] = append(methods[row.Path], http.MethodHead)
		}
	}
	for path, served := range methods {
		row := Route{ID: "options", Handle: options(append(served, http.MethodOptions))}
		e.OPTIONS(path, g.serve(g.newRoute(row, callerStages)))
	}
	g.addPages(e)

	row := Route{ID: "unmatched", Handle: unmatched}
	inside, outside := g.serve(g.newRoute(row, callerStages)), g.serve(g.newRoute(row, nil))
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

// unmatched answers a request that no row is for. Gin has left in the header which methods the path would take.
func unmatched(r *Request) (Reply, error) {
	if allowed := r.gin.Writer.Header().Get("Allow"); allowed != "" {
		return Reply{}, methodNotAllowed(allowValue(strings.Split(allowed, ", ")))
	}
	return Reply{}, notFound(errNoRoute)
}

// options answers which methods a path takes.
func options(methods []string) Handler {
	reply := Reply{allow: allowValue(methods)}
	return func(*Request) (Reply, error) { return reply, nil }
}

func allowValue(methods []string) string {
	slices.Sort(methods)
	return strings.Join(methods, ", ")
}
