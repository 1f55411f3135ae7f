package chaos

import (
	"net/http"
	"strings"
	"testing"

	"opsgate/gateway/openapi/openapitest"
)

// largest has, for each query parameter, the values that ask for the most data.
var largest = map[string][]string{
	"action": {"i"}, // incidents have the most entries
	"cursor": {""},
	"limit":  {"100"}, "page": {"1"}, "pageSize": {"100"},
	"range": {"24h", "30d"},
	"since": {"1970-01-01T00:00:00Z"},
}

// largestReads returns the paths of every operation that reads, on each of the resources, with the parameters that ask for the most data.
// The paths of an operation are together.
func largestReads(t *testing.T, resources teamResources) (byOperation [][]string) {
	t.Helper()
	for _, o := range openapitest.Operations() {
		if o.Method != http.MethodGet {
			continue
		}
		queries := []string{""}
		for _, example := range o.Query {
			name, _, _ := strings.Cut(example, "=")
			if len(largest[name]) == 0 {
				t.Fatalf("%s: this test does not know the parameter %s", o.ID, name)
			}
			queries = withParameter(queries, name)
		}
		var paths []string
		for _, path := range resources.all(o.Path) {
			for _, query := range queries {
				paths = append(paths, path+"?"+strings.TrimPrefix(query, "&"))
			}
		}
		byOperation = append(byOperation, paths)
	}
	return byOperation
}

// withParameter returns the queries with each largest value of the parameter.
func withParameter(queries []string, name string) (all []string) {
	for _, query := range queries {
		for _, value := range largest[name] {
			all = append(all, query+"&"+name+"="+value)
		}
	}
	return all
}

// all returns a path with each of the IDs of the list above it.
func (r teamResources) all(path string) (paths []string) {
	list, _, byID := strings.Cut(path, "/{id}")
	if !byID {
		return []string{path}
	}
	for _, id := range r[list] {
		paths = append(paths, r.fill(path, func(string, []string) string { return id }))
	}
	return paths
}

// readEverything requests every path once, and returns the largest response of each operation, by path, and the numbers of responses.
func readEverything(t *testing.T, g *gateway, token string, byOperation [][]string) (sizes map[string]int, statuses map[int]int) {
	t.Helper()
	client := newClient(t, nil)
	sizes, statuses = map[string]int{}, map[int]int{}
	for _, paths := range byOperation {
		most, at := -1, ""
		for _, path := range paths {
			a := mustAsk(t, client, http.MethodGet, g.url+path, token, "", "Accept-Encoding: identity")
			statuses[a.status]++
			if a.status >= http.StatusInternalServerError {
				t.Errorf("%s: %d", path, a.status)
			}
			if len(a.body) > most {
				most, at = len(a.body), path
			}
		}
		sizes[at] = most
	}
	return sizes, statuses
}

// maxSize returns the path with the largest response.
func maxSize(sizes map[string]int) (path string, size int) {
	for p, n := range sizes {
		if n > size {
			path, size = p, n
		}
	}
	return path, size
}
