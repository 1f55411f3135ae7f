package httpserver

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"
)

// Browsers and load balancers open connections in advance. The grace period is for requests.
func TestShutdownDoesNotWaitForUnusedConnectionsUntilTheirTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &Server{http: &http.Server{ReadHeaderTimeout: time.Minute}}
		s.firstRequests.Add(1)
		start := time.Now()
		s.awaitFirstRequests(t.Context())
		if took := time.Since(start); took > 5*time.Second {
			t.Errorf("it waited for %v", took)
		}
	})
}
