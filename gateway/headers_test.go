package gateway

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	fleetv1 "opsgate/proto/ops/fleet/v1"
)

const yearOfTLS = "max-age=31536000"

// mustBeSecure checks the headers that every response has.
func mustBeSecure(t *testing.T, what string, header http.Header, overTLS bool) {
	t.Helper()
	if got := header["X-Content-Type-Options"]; !slices.Equal(got, []string{"nosniff"}) {
		t.Errorf("%s: X-Content-Type-Options %q", what, got)
	}
	want := ""
	if overTLS {
		want = yearOfTLS
	}
	if got := strings.Join(header["Strict-Transport-Security"], ", "); got != want {
		t.Errorf("%s: Strict-Transport-Security %q, want %q", what, got, want)
	}
}

// TestEveryCauseIsLoggedCountedAndExplained checks those of errors over TLS.
func TestEveryResponseHasSecurityHeaders(t *testing.T) {
	for _, overTLS := range []bool{false, true} {
		h := start(t, func(o *Options) { o.TLS = overTLS })
		h.services.reply("ListServers", manyServers(1))
		tag := h.get(t, "/v1/servers").Header.Get("ETag")
		for _, c := range []struct {
			method, target string
			status         int
			headers        []string
		}{
			{"GET", "/v1/servers", 200, nil},
			{"HEAD", "/v1/servers", 200, nil},
			{"GET", "/v1/servers", 304, []string{"If-None-Match: " + tag}},
			{"OPTIONS", "/v1/servers", 204, nil},
			{"GET", "/openapi.yaml", 200, nil},
			{"GET", "/docs/", 200, nil},
			{"GET", "/docs", 308, nil},
			{"GET", "/", 307, nil},
			{"GET", "/elsewhere", 404, nil},
		} {
			got := h.do(t, "full", c.method, c.target, "", c.headers...).mustBe(t, c.status)
			mustBeSecure(t, c.method+" "+c.target, got.Header, overTLS)
		}
	}
}

// A map of nine headers needs three times the memory (BenchmarkOverHTTP).
func TestSmallResponsesHaveEightHeaders(t *testing.T) {
	h := start(t)
	h.services.reply("GetServer", &fleetv1.GetServerResponse{Server: fullServer()})
	for _, target := range []string{"/v1/me", "/v1/servers/" + someID} {
		w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, target, nil)
		r.Header.Set("Authorization", "Bearer full")
		h.gateway.ServeHTTP(w, r)
		if len(w.Header()) > 8 {
			t.Errorf("%s: %d fields: %v", target, len(w.Header()), w.Header())
		}
	}
}

// net/http adds the length of a small response and the gateway that of a larger one, so that no
// response is chunked.
func TestEveryResponseHasContentLength(t *testing.T) {
	h := start(t)
	for n := range 12 { // about 300 bytes each
		h.services.reply("ListServers", manyServers(n))
		for _, encoding := range []string{"identity", "gzip"} {
			got := h.get(t, "/v1/servers", "Accept-Encoding: "+encoding)
			head := h.do(t, "full", "HEAD", "/v1/servers", "", "Accept-Encoding: "+encoding)
			if tag := got.Header.Get("Etag"); tag == "" || head.Header.Get("Etag") != tag || head.body != "" {
				t.Errorf("%d servers, %s: ETag %q, of HEAD %q with %q", n, encoding, tag, head.Header.Get("Etag"), head.body)
			}
			if got.ContentLength != int64(len(got.body)) || head.ContentLength != got.ContentLength || len(got.TransferEncoding) > 0 {
				t.Errorf("%d servers, %s: %d bytes; Content-Length %d, of HEAD %d", n, encoding, len(got.body), got.ContentLength, head.ContentLength)
			}
		}
	}
	refused := h.do(t, "full", "GET", "/v1/nothing", "")
	if refused.ContentLength != int64(len(refused.body)) {
		t.Errorf("404: Content-Length %d of %d bytes", refused.ContentLength, len(refused.body))
	}
}

// Requests are pooled, and net/http reads their header values later.
func TestConcurrentRequestsKeepTheirHeadersAndLogLines(t *testing.T) {
	h := start(t)
	const clients, requests = 8, 25
	var wg sync.WaitGroup
	for client := range clients {
		wg.Go(func() {
			for i := range requests {
				id := fmt.Sprintf("request-%d-%d", client, i)
				req := httptest.NewRequest(http.MethodGet, "/v1/me?"+id, nil)
				req.Header.Set("Authorization", "Bearer full")
				req.Header.Set("X-Request-Id", id)
				w := httptest.NewRecorder()
				h.gateway.ServeHTTP(w, req)
				runtime.Gosched() // other requests use the pooled memory
				if got := w.Header().Get("X-Request-Id"); got != id {
					t.Errorf("X-Request-Id %q, want %q", got, id)
				}
				if got := w.Header().Get("Ignored-Parameters"); got != `"`+id+`"` {
					t.Errorf("Ignored-Parameters %s of %s", got, id)
				}
				if n := strings.Count(h.log.String(), `"request_id":"`+id+`"`); n != 1 {
					t.Errorf("%d log lines of %s, want 1", n, id)
				}
			}
		})
	}
	wg.Wait()
}
