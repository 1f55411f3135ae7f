package chaos

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"opsgate/gateway/openapi/openapitest"
	"opsgate/internal/testkit"
)

const (
	// maxMessage is the size of the largest message from a service that the gateway accepts
	// (upstream_calls.max_response_bytes).
	maxMessage = 8 << 20
	// maxResponse bounds each response: the texts of the largest message take at most half of
	// maxMessage, and JSON at most doubles them (decode.TestValidTextAtMostDoublesInAResponse).
	maxResponse = maxMessage + maxMessage/8
	// mostWrites is more than any bound allows.
	mostWrites = 2500
)

// Row 34: every write is driven to its bounds with the texts that take the most room, and then
// everything is read. No request fails with 5xx, and no response is above its bound.
func TestAttackLargestData(t *testing.T) {
	skipIfShort(t)
	parallel(t)
	b := startBackend(t)
	g := startGateway(t, everyService(b.address), unlimited)
	w := newLargestWriter(t, g)

	opened := w.fillWithIncidents()
	report(t, "incidents opened until the first 422", opened, "at least 900, besides those of the demo data")
	if opened < 900 {
		t.Errorf("only %d", opened)
	}
	for name, character := range map[string]string{"emoji": "😀", "quotes": `"`, "line separators": "\u2028"} {
		_, n, bytes := w.fillIncident(character, 10_000)
		report(t, "updates of "+name+", and their bytes", fmt.Sprint(n, ", ", bytes), "at least 1 MiB less one update")
		if bytes < 1<<20-10_000*len(character) {
			t.Errorf("%s: only %d bytes", name, bytes)
		}
	}
	report(t, "writes by status", fmt.Sprint(w.statuses), "200, 422")
	for _, o := range writes() {
		if !w.refused[o.Path] {
			t.Errorf("%s: this test does not drive it to its bound", o.ID)
		}
	}

	resources := resourcesOf(t, g)
	sizes, statuses := readEverything(t, g, tokens(t)["full"].Text, largestReads(t, resources))
	path, size := maxSize(sizes)
	report(t, "reads by status", fmt.Sprint(statuses), "200")
	if len(statuses) != 1 || statuses[http.StatusOK] == 0 {
		t.Errorf("reads were answered %v", statuses)
	}
	atMost(t, fmt.Sprintf("bytes of the largest of %d responses, %s", len(sizes), path), size, maxResponse)
	expectNone(t, "refunded requests", int(g.metric(t, "opsgate_rate_limit_refunds_total")))
}

// A largestWriter sends writes with the largest values until they are refused.
type largestWriter struct {
	t         *testing.T
	client    *http.Client
	gateway   *gateway
	resources teamResources
	statuses  map[int]int
	refused   map[string]bool // paths of the operations that were refused with 422
}

func newLargestWriter(t *testing.T, g *gateway) *largestWriter {
	t.Helper()
	return &largestWriter{
		t: t, client: newClient(t, nil), gateway: g, resources: resourcesOf(t, g), statuses: map[int]int{}, refused: map[string]bool{},
	}
}

// post sends a body. It returns the id in the response, and false if the request was refused with
// 422.
func (w *largestWriter) post(path string, body map[string]any) (id string, accepted bool) {
	w.t.Helper()
	text, err := json.Marshal(body)
	testkit.Must(w.t, err)
	status, answer := postTo(w.t, w.client, w.gateway.url+path, string(text))
	w.statuses[status]++
	var created struct{ ID string }
	if status == http.StatusUnprocessableEntity {
		w.refused[template(path)] = true
		return "", false
	}
	if status != http.StatusOK || json.Unmarshal(answer, &created) != nil {
		w.t.Fatalf("%s: %d %s", path, status, answer)
	}
	return created.ID, true
}

// template returns the path of an operation.
func template(path string) string {
	parts := strings.Split(path, "/")
	if len(parts) > 3 {
		parts[3] = "{id}"
	}
	return strings.Join(parts, "/")
}

// filled returns a text of n characters, of which the first and the last are not trimmed.
func filled(character string, n int) string { return "x" + strings.Repeat(character, n-2) + "x" }

// create creates an incident with the largest title, on the first page.
func (w *largestWriter) create(status, message string) (id string, accepted bool) {
	w.t.Helper()
	return w.post("/v1/incidents", map[string]any{
		"title": filled("😀", 255), "status": status, "impact": "critical", "message": message,
		"statusPageId": w.resources["/v1/status-pages"][0],
	})
}

// fillWithIncidents opens incidents until one is refused, and resolves one of them. It returns
// their number.
func (w *largestWriter) fillWithIncidents() (n int) {
	w.t.Helper()
	for last := ""; n < mostWrites; n++ {
		id, accepted := w.create("investigating", filled("😀", 100))
		if !accepted {
			if _, accepted := w.post("/v1/incidents/"+last+"/updates", map[string]any{"status": "resolved", "message": "m"}); !accepted {
				w.t.Error("an incident cannot be resolved at the bound")
			}
			return n
		}
		last = id
	}
	w.t.Errorf("%d open incidents, and no bound", n)
	return n
}

// fillIncident posts updates of a length to a new incident until one is refused, and resolves it
// with the largest. It returns the incident, the number of updates and the bytes of their texts.
func (w *largestWriter) fillIncident(character string, length int) (id string, n, bytes int) {
	w.t.Helper()
	message, largest := filled(character, length), filled(character, 10_000)
	id, accepted := w.create("investigating", message)
	if !accepted {
		w.t.Fatal("there is no room for another incident")
	}
	updates := "/v1/incidents/" + id + "/updates"
	for n, bytes = 1, len(message); n < mostWrites; n, bytes = n+1, bytes+len(message) {
		if _, accepted := w.post(updates, map[string]any{"status": "identified", "message": message}); !accepted {
			break
		}
	}
	for rest := length; rest > 2; rest /= 2 { // fill the remaining room
		small := filled(character, rest)
		if _, accepted := w.post(updates, map[string]any{"status": "identified", "message": small}); accepted {
			n, bytes = n+1, bytes+len(small)
		}
	}
	if _, accepted := w.post(updates, map[string]any{"status": "resolved", "message": largest}); !accepted {
		w.t.Error("an incident that is full cannot be resolved")
	}
	return id, n + 1, bytes + len(largest)
}

// largest has, for each query parameter, the values that ask for the most data.
var largest = map[string][]string{
	"action": {"i"}, // incidents have the most entries
	"cursor": {""},
	"limit":  {"100"}, "page": {"1"}, "pageSize": {"100"},
	"range": {"24h", "30d"},
	"since": {"1970-01-01T00:00:00Z"},
}

// largestReads returns the paths of every operation that reads, on each of the resources, with the
// parameters that ask for the most data. The paths of an operation are together.
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

// readEverything requests every path once, and returns the largest response of each operation, by
// path, and the numbers of responses.
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
