package httpserver

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"opsgate/gateway"
)

// Browsers and load balancers open connections in advance. The grace period is for requests.
func TestShutdownDoesNotWaitForUnusedConnectionsUntilTheirTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &Server{http: &http.Server{ReadHeaderTimeout: time.Minute}}
		s.unusedConnections.Add(1)
		start := time.Now()
		s.awaitFirstRequests(t.Context())
		if took := time.Since(start); took > 5*time.Second {
			t.Errorf("it waited for %v", took)
		}
	})
}

func TestAnonymousRequestDuringADrainDoesNotDelayTheEvictionOfItsConnection(t *testing.T) {
	l := newConnections(t, 1<<20)
	first, _ := l.connect(t)
	l.connect(t)
	s := new(Server)
	s.Drain()
	r := httptest.NewRequestWithContext(gateway.WithConnection(t.Context(), first), http.MethodGet, "/", nil)
	s.closeWhileDraining(http.NotFoundHandler()).ServeHTTP(httptest.NewRecorder(), r)
	if l.idle.first(l.open) != first {
		t.Error("the connection of the request counts as the one that became idle last")
	}
}
