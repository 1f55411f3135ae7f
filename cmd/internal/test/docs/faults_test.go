package docs

import (
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strconv"
	"sync"
	"testing"
	"time"

	"opsgate/backendclient/testkit"
)

// A faultyProxy forwards requests to a system, and answers some of them badly itself.
type faultyProxy struct {
	mu       sync.Mutex
	requests []recorded
	fault    func(n int, r *http.Request) fault // of the nth request, from 1
	target   http.Handler
}

// A recorded request is one that the proxy received.
type recorded struct {
	at             time.Time
	method, key    string
	status         int  // 0 for a connection that was cut
	lost           bool // the client did not get the whole response
	retryAfter     time.Duration
	idempotentBack bool // the response was a replay
}

// A fault is what the proxy does to a request; the zero value forwards it.
type fault struct {
	status     int         // respond with this error
	code       string      // of the error
	retryAfter int         // seconds
	cut        bool        // forward the request, then close the connection instead of responding
	half       bool        // forward the request, then send half of the response
	header     http.Header // forward the request, and add this to the response
}

// newFaultyProxy starts a proxy and returns it with its base URL. choose may change the request.
func newFaultyProxy(t *testing.T, system system, choose func(n int, r *http.Request) fault) (*faultyProxy, string) {
	t.Helper()
	target, err := url.Parse(system.BaseURL)
	testkit.Must(t, err)
	p := &faultyProxy{fault: choose, target: &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) }}}
	server := httptest.NewServer(p)
	t.Cleanup(server.Close)
	return p, server.URL
}

func (p *faultyProxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	n := len(p.requests)
	p.requests = append(p.requests, recorded{at: time.Now(), method: r.Method, key: r.Header.Get("Idempotency-Key")})
	p.mu.Unlock()
	f := p.fault(n+1, r)
	if f.status != 0 {
		p.record(n, f.status, time.Duration(f.retryAfter)*time.Second, false)
		w.Header().Set("Content-Type", "application/json; charset=utf-8")
		if f.retryAfter > 0 {
			w.Header().Set("Retry-After", strconv.Itoa(f.retryAfter))
		}
		w.WriteHeader(f.status)
		_, _ = w.Write([]byte(`{"error":"a fault on purpose","code":"` + f.code + `"}`))
		return
	}
	p.mu.Lock()
	p.requests[n].lost = f.cut || f.half
	p.mu.Unlock()
	answer := httptest.NewRecorder()
	p.target.ServeHTTP(answer, r)
	if f.cut {
		panic(http.ErrAbortHandler) // closes the connection
	}
	seconds, _ := strconv.Atoi(answer.Header().Get("Retry-After")) // 0 without it
	p.record(n, answer.Code, time.Duration(seconds)*time.Second, answer.Header().Get("Idempotent-Replayed") == "true")
	maps.Copy(w.Header(), answer.Header())
	maps.Copy(w.Header(), f.header)
	w.WriteHeader(answer.Code)
	body := answer.Body.Bytes()
	if f.half { // the length that is announced is that of the whole
		_, _ = w.Write(body[:len(body)/2])
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}
	_, _ = w.Write(body)
}

func (p *faultyProxy) record(n, status int, retryAfter time.Duration, replayed bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.requests[n].status, p.requests[n].retryAfter, p.requests[n].idempotentBack = status, retryAfter, replayed
}
