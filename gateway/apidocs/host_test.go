package apidocs

import (
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
)

// embedded are the pages of a gateway without public_url.
//
//nolint:gochecknoglobals // a cache of constants
var embedded = New("")

// A host serves the documentation.
type host struct {
	*httptest.Server
	mu      sync.Mutex
	missing []string // requested paths that do not exist
	broken  string   // path that a proxy answers with an error
}

func startHost(t *testing.T) *host {
	t.Helper()
	s := &host{}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

func (s *host) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.URL.Path == s.broken {
		w.Header().Set("Content-Type", "text/html")
		w.WriteHeader(http.StatusBadGateway)
		_, _ = io.WriteString(w, "<title>Bad gateway</title>")
		return
	}
	page, ok := embedded.Lookup(r.URL.Path)
	if !ok {
		s.missing = append(s.missing, r.URL.Path)
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", page.ContentType)
	w.Header().Set("Content-Security-Policy", page.CSP)
	_, _ = w.Write(page.Body)
}
