package system

import (
	"bufio"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"opsgate/gateway/openapi/openapitest"
	"opsgate/internal/testkit"
)

// raw sends bytes unchanged and reads one response, which may arrive before all bytes are sent.
func raw(t *testing.T, s *System, request string) *http.Response {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(s.BaseURL, "http://"))
	testkit.Must(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(testkit.MaxWait))
	go func() { _, _ = conn.Write([]byte(request)) }() // ends when the connection is closed
	method, _, _ := strings.Cut(request, " ")
	resp, err := http.ReadResponse(bufio.NewReader(conn), &http.Request{Method: method})
	testkit.Must(t, err)
	t.Cleanup(func() { _ = resp.Body.Close() })
	return resp
}

func TestUnusualHTTPRequestsGetTheDocumentedStatus(t *testing.T) {
	s := shared
	auth := "Host: x\r\nAuthorization: Bearer " + s.Tokens["full"] + "\r\n"
	for name, c := range map[string]struct {
		request string
		status  int
		closes  bool
	}{
		"chunked":             {"POST /v1/incidents HTTP/1.1\r\n" + auth + "Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n", 422, true},
		"chunked with length": {"POST /v1/incidents HTTP/1.1\r\n" + auth + "Content-Length: 9\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n", 422, true},
		"too large, unsent":   {"POST /v1/incidents HTTP/1.1\r\n" + auth + "Content-Length: 131073\r\nExpect: 100-continue\r\n\r\n", 413, true},
		"options of all":      {"OPTIONS * HTTP/1.1\r\n" + auth + "\r\n", 404, false},
		"absolute form":       {"GET http://x/v1/me HTTP/1.1\r\n" + auth + "\r\n", 200, false},
		"connect":             {"CONNECT x:443 HTTP/1.1\r\n" + auth + "\r\n", 404, false},
		"dot segments":        {"GET /v1/../v1/me HTTP/1.1\r\n" + auth + "\r\n", 404, false},
		"encoded slash":       {"GET /v1%2fme HTTP/1.1\r\n" + auth + "\r\n", 404, false},
		"headers too large":   {"GET /v1/me HTTP/1.1\r\n" + auth + "X-Large: " + strings.Repeat("x", 2<<20) + "\r\n\r\n", 431, true},
		"two credentials":     {"GET /v1/me HTTP/1.1\r\n" + auth + "Authorization: Bearer " + s.Tokens["full"] + "\r\n\r\n", 401, false},
	} {
		t.Run(name, func(t *testing.T) {
			resp := raw(t, s, c.request)
			if resp.StatusCode != c.status || resp.Close != c.closes {
				t.Errorf("%s, close %v; want %d, %v", resp.Status, resp.Close, c.status, c.closes)
			}
		})
	}
}

func TestDocumentationIsPublic(t *testing.T) {
	anonymous := client{system: shared, validator: openapitest.New(t)}
	for path, contentType := range map[string]string{
		"/openapi.json": "application/json; charset=utf-8", "/openapi.yaml": "application/yaml; charset=utf-8", "/docs/": "text/html; charset=utf-8",
	} {
		r := anonymous.get(t, path).must(t, 200)
		if r.header.Get("Content-Type") != contentType {
			t.Errorf("%s is %s", path, r.header.Get("Content-Type"))
		}
		anonymous.get(t, path, "If-None-Match: "+r.header.Get("ETag")).must(t, 304)
	}
	if csp := anonymous.get(t, "/docs/").header.Get("Content-Security-Policy"); !strings.Contains(csp, "default-src 'none'") || strings.Contains(csp, "unsafe-eval") {
		t.Errorf("Content-Security-Policy = %q", csp)
	}
	for path, status := range map[string]int{"/docs": 308, "/": 307} {
		if got := anonymous.get(t, path).must(t, status).header.Get("Location"); got != "/docs/" {
			t.Errorf("%s is redirected to %q", path, got)
		}
	}
	anonymous.get(t, "/elsewhere").fails(t, 404, "not_found")
}

func TestAdminPathsAreServedByTheAdminListenerOnly(t *testing.T) {
	s := shared
	s.as(t, "full").get(t, "/v1/me").must(t, 200)
	admin := client{system: &System{BaseURL: s.AdminURL}}
	for path, want := range map[string]string{
		"/livez": "", "/readyz": "", "/metrics": `opsgate_http_requests_total{cause="",code="ok",route="v1Me",status="200"}`, "/debug/pprof/": "goroutine",
	} {
		r, err := admin.try(t.Context(), "GET", path, "")
		if err != nil || r.status != 200 || !strings.Contains(string(r.body), want) {
			t.Errorf("%s: %d, error %v, contains %q: %v", path, r.status, err, want, strings.Contains(string(r.body), want))
		}
	}
	for _, path := range []string{"/metrics", "/readyz", "/debug/pprof/"} {
		s.as(t, "full").get(t, path).fails(t, 404, "not_found")
	}
}
