package command

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
)

// An unreadWriter is the connection of a client that does not read its answer until release.
type unreadWriter struct {
	*httptest.ResponseRecorder

	writing chan<- int
	release <-chan struct{}
}

func (w unreadWriter) Write(p []byte) (int, error) {
	w.writing <- w.Code
	<-w.release
	return w.ResponseRecorder.Write(p)
}

func TestUnreadAnswersHoldNoCalls(t *testing.T) {
	l := &listener{local: true, public: new(url.URL)}
	server := l.admit(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte("{}"))
	}))
	writing, release := make(chan int), make(chan struct{})
	var all sync.WaitGroup
	for range maxCalls + 1 {
		request := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "http://localhost/mcp", strings.NewReader("{}"))
		request.Header.Set("Authorization", "Bearer x")
		all.Go(func() {
			server.ServeHTTP(unreadWriter{httptest.NewRecorder(), writing, release}, request)
		})
	}
	for range maxCalls + 1 {
		if status := <-writing; status != http.StatusOK {
			t.Errorf("got %d", status)
		}
	}
	close(release)
	all.Wait()
}
