package docs

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"opsgate/gateway/apidocs/samples"
)

// getText returns the body of a response to a demo token.
func (s system) getText(t *testing.T, token, path string) []byte {
	t.Helper()
	return s.send(t, http.MethodGet, token, path, "")
}

// post returns the body of the response to a POST.
func (s system) post(t *testing.T, token, path, body string) []byte {
	t.Helper()
	return s.send(t, http.MethodPost, token, path, body)
}

// send returns the body of a successful response.
func (s system) send(t *testing.T, method, token, path, body string) []byte {
	t.Helper()
	path, query, _ := strings.Cut(path, "?")
	response, text := s.call(t, samples.Request{Method: method, Path: path, Query: query, Body: body}, token)
	if response.StatusCode != http.StatusOK {
		t.Fatalf("%s %s: %d %s", method, path, response.StatusCode, text)
	}
	return text
}

// An incident is what tests compare of one.
type incident struct {
	ID, Status string
	Updates    []json.RawMessage
}

func (s system) incident(t *testing.T, id string) (i incident) {
	t.Helper()
	decode(t, s.getText(t, "full", "/v1/incidents/"+id), &i)
	return i
}

// incidents returns the ids of all incidents of the first team.
func (s system) incidents(t *testing.T) []string {
	t.Helper()
	return s.incidentsOf(t, "full")
}

func (s system) incidentsOf(t *testing.T, token string) (ids []string) {
	t.Helper()
	for path := "/v1/incidents?limit=100"; ; {
		var page struct {
			Items      []incident
			NextCursor *string
		}
		decode(t, s.getText(t, token, path), &page)
		for _, i := range page.Items {
			ids = append(ids, i.ID)
		}
		if page.NextCursor == nil {
			return ids
		}
		path = "/v1/incidents?limit=100&cursor=" + *page.NextCursor
	}
}

// open opens an incident and returns its id.
func (s system) open(t *testing.T, token, title string) string {
	t.Helper()
	var i incident
	body := `{"title":"` + title + `","status":"investigating","impact":"minor","message":"m"}`
	decode(t, s.post(t, token, "/v1/incidents", body), &i)
	return i.ID
}

// busiestServer returns the server with the longest command history, and its length.
func (s system) busiestServer(t *testing.T) (id string, total int) {
	t.Helper()
	for _, server := range s.servers(t) {
		var page struct{ Total int }
		decode(t, s.getText(t, "full", "/v1/servers/"+server+"/commands?pageSize=1"), &page)
		if page.Total > total {
			id, total = server, page.Total
		}
	}
	return id, total
}

func (s system) servers(t *testing.T) (ids []string) {
	t.Helper()
	var servers []struct{ ID string }
	decode(t, s.getText(t, "full", "/v1/servers"), &servers)
	for _, server := range servers {
		ids = append(ids, server.ID)
	}
	return ids
}

func (s system) serversWithMetrics(t *testing.T) (count int) {
	t.Helper()
	for _, server := range s.servers(t) {
		var series struct{ Points []json.RawMessage }
		if decode(t, s.getText(t, "full", "/v1/servers/"+server+"/metrics?range=24h"), &series); len(series.Points) > 0 {
			count++
		}
	}
	return count
}
