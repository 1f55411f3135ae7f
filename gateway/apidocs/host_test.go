package apidocs

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"opsgate/gateway/baseurl"
)

// A host serves the documentation.
type host struct {
	*httptest.Server
	mu      sync.Mutex
	missing []string // requested paths that do not exist
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
	page, ok := Lookup(r.URL.Path)
	if !ok {
		s.missing = append(s.missing, r.URL.Path)
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", page.ContentType)
	w.Header().Set("Content-Security-Policy", page.CSP)
	_, _ = w.Write(bytes.ReplaceAll(page.Body, []byte(baseurl.Placeholder), []byte(s.URL))) // as the gateway does
}
