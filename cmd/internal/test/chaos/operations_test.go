package chaos

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"opsgate/gateway/openapi/openapitest"
)

// unknown is the ID of no resource. The gateway handles it as it handles an existing one, and the
// response is short.
const unknown = "00000000-0000-4000-8000-000000000000"

// unknownServer is the path of most requests.
const unknownServer = "/v1/servers/" + unknown

// reads returns a path of every operation that reads from a service. Together they call all
// services but identity.
func reads() []string {
	var paths []string
	for _, o := range openapitest.Operations() {
		if o.Method == http.MethodGet && o.Scope != "" {
			paths = append(paths, strings.ReplaceAll(o.Path, "{id}", unknown))
		}
	}
	return paths
}

// readable returns the path template of every operation that reads, without a query, and with each
// of its query parameters.
func readable() []string {
	var templates []string
	for _, o := range openapitest.Operations() {
		if o.Method != http.MethodGet {
			continue
		}
		templates = append(templates, o.Path)
		for _, parameter := range o.Query {
			templates = append(templates, o.Path+"?"+parameter)
		}
	}
	return templates
}

// writes returns the operations that take a body.
func writes() []openapitest.Operation {
	var operations []openapitest.Operation
	for _, o := range openapitest.Operations() {
		if o.Body != "" {
			operations = append(operations, o)
		}
	}
	return operations
}

// teamResources are the IDs of what a team has, by the path of the list.
type teamResources map[string][]string

// listResources fetches every list above an {id}.
func listResources(fetch func(path string, into any)) teamResources {
	r := make(teamResources)
	for _, o := range openapitest.Operations() {
		list, _, byID := strings.Cut(o.Path, "/{id}")
		if !byID || r[list] != nil {
			continue
		}
		var body json.RawMessage
		fetch(list, &body)
		r[list] = idsOf(body)
	}
	return r
}

// idsOf returns the IDs in a bare array or in a page of items.
func idsOf(body json.RawMessage) (ids []string) {
	type resource struct{ ID string }
	var page struct{ Items []resource }
	into := any(&page)
	if bytes.HasPrefix(body, []byte("[")) {
		into = &page.Items
	}
	_ = json.Unmarshal(body, into)
	for _, r := range page.Items {
		ids = append(ids, r.ID)
	}
	return ids
}

// fill replaces {id} in a path by the ID that choose returns for the list above it.
func (r teamResources) fill(path string, choose func(list string, ids []string) string) string {
	list, rest, byID := strings.Cut(path, "/{id}")
	if !byID {
		return path
	}
	return list + "/" + choose(list, r[list]) + rest
}

// first chooses the first ID.
func first(_ string, ids []string) string { return ids[0] }

// resourcesOf returns the resources of the team of the token "full".
func resourcesOf(t *testing.T, g *gateway) teamResources {
	t.Helper()
	return resourcesOfToken(t, g, "full")
}

// resourcesOfToken returns the resources of the team of a demo token.
func resourcesOfToken(t *testing.T, g *gateway, token string) teamResources {
	t.Helper()
	r := listResources(func(path string, into any) { mustRead(t, http.DefaultClient, g.url+path, tokens(t)[token].Text, into) })
	for list, ids := range r {
		if len(ids) == 0 {
			t.Fatalf("%s is empty", list)
		}
	}
	return r
}
