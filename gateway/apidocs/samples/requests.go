package samples

import (
	"net/url"
	"strings"
	"sync"

	"opsgate/gateway/openapi"
)

// exampleQueries returns the query of the example request of an operation, by its operationId. They
// make the responses short and show how parameters are sent. Other operations have no query. Path
// parameters and bodies are the examples of the OpenAPI document.
func exampleQueries() map[string]string {
	return map[string]string{
		"v1GetServerMetrics":   "range=1h",
		"v1ListServerCommands": "page=1&pageSize=2",
		"v1ListIncidents":      "limit=2",
		"v1ListAudit":          "action=incident.&limit=2",
	}
}

// Requests returns the example request of each operation of the OpenAPI document, by its
// operationId: with the example of each path parameter and the shortest example of the body. It
// leaves out operations of which a path parameter has no example yet. Callers must not modify the
// result.
func Requests() map[string]Request { return requests() }

var requests = sync.OnceValue(func() map[string]Request {
	found, err := readRequests(openapi.YAML())
	if err != nil {
		panic("samples: the OpenAPI document: " + err.Error())
	}
	return found
})

func readRequests(text []byte) (map[string]Request, error) {
	document, err := openapi.Read(text)
	if err != nil {
		return nil, err
	}
	found := make(map[string]Request)
	for _, o := range document.Operations {
		path := o.Path
		for _, p := range o.Parameters {
			if p.In == "path" && p.Example != "" {
				path = strings.ReplaceAll(path, "{"+p.Name+"}", url.PathEscape(p.Example))
			}
		}
		if !strings.Contains(path, "{") {
			found[o.ID] = Request{Method: o.Method, Path: path, Query: exampleQueries()[o.ID], Body: shortestBody(o)}
		}
	}
	return found, nil
}

func shortestBody(o openapi.Operation) string {
	shortest := ""
	for _, example := range o.RequestBody.Content.JSON.Examples {
		if body := string(example.Value.Value); shortest == "" || len(body) < len(shortest) {
			shortest = body
		}
	}
	return shortest
}
