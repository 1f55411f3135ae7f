package samples

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"

	"opsgate/gateway/openapi"
)

// exampleQueries returns the query of the example request of an operation, by its operationId. They make the responses short and show how
// parameters are sent. Other operations have no query. Path parameters and bodies are the examples of the OpenAPI document.
func exampleQueries() map[string]string {
	return map[string]string{
		"v1GetServerMetrics":   "range=1h",
		"v1ListServerCommands": "page=1&pageSize=2",
		"v1ListIncidents":      "limit=2",
		"v1ListAudit":          "action=incident.&limit=2",
	}
}

// Requests returns the example request of each operation of the OpenAPI document, by its operationId: with the example of each path
// parameter and the shortest example of the body. It leaves out operations of which a path parameter has no example yet. Callers must not
// modify the result.
func Requests() map[string]Request { return requests() }

//nolint:gochecknoglobals // a cache of constants
var requests = sync.OnceValue(func() map[string]Request {
	found, err := readRequests(openapi.JSON())
	if err != nil {
		panic("samples: the OpenAPI document: " + err.Error())
	}
	return found
})

// document has the parts of an OpenAPI document that make requests.
type document struct {
	Paths      map[string]pathItem
	Components struct {
		Parameters map[string]parameter
	}
}

type pathItem struct {
	Parameters []parameter
	Get, Post  *operation
}

type operation struct {
	OperationID string
	Parameters  []parameter
	RequestBody struct {
		Content map[string]struct {
			Examples map[string]struct{ Value json.RawMessage }
		}
	}
}

type parameter struct {
	Ref     string `json:"$ref"`
	Name    string
	In      string
	Example any
}

func readRequests(openAPI []byte) (map[string]Request, error) {
	var d document
	if err := json.Unmarshal(openAPI, &d); err != nil {
		return nil, err
	}
	found := make(map[string]Request)
	for path, item := range d.Paths {
		for method, o := range map[string]*operation{http.MethodGet: item.Get, http.MethodPost: item.Post} {
			if o == nil {
				continue
			}
			filled := d.fill(path, slices.Concat(item.Parameters, o.Parameters))
			if strings.Contains(filled, "{") {
				continue
			}
			found[o.OperationID] = Request{Method: method, Path: filled, Query: exampleQueries()[o.OperationID], Body: o.shortestBody()}
		}
	}
	return found, nil
}

// fill replaces the parameters in a path by their examples.
func (d document) fill(path string, parameters []parameter) string {
	for _, p := range parameters {
		if name, ok := strings.CutPrefix(p.Ref, "#/components/parameters/"); ok {
			p = d.Components.Parameters[name]
		}
		if p.In == "path" && p.Example != nil {
			path = strings.ReplaceAll(path, "{"+p.Name+"}", url.PathEscape(fmt.Sprint(p.Example)))
		}
	}
	return path
}

func (o operation) shortestBody() string {
	shortest := ""
	for _, example := range o.RequestBody.Content["application/json"].Examples {
		if body := string(example.Value); shortest == "" || len(body) < len(shortest) {
			shortest = body
		}
	}
	return shortest
}
