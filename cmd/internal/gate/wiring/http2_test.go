package wiring_test

import (
	"io"
	"net/http"
	"strings"
	"testing"
)

// The contract of the API is the same over HTTP/1.1 and HTTP/2.
func TestResponsesOverHTTP2(t *testing.T) {
	services := startServices(t)
	services.scopes = []string{"incidents:write"}
	s := secureGateway(t, services, limits(1000)+"http: {max_body_bytes: 1KiB}\n")
	first, _, err := s.do(s.client(t, true), "GET", "/v1/servers", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	tag, json := first.Header.Get("Etag"), http.Header{"Content-Type": {"application/json"}}
	body := func(text string) io.Reader { return struct{ io.Reader }{strings.NewReader(text)} } // hides the length
	for _, test := range []struct {
		name, method, path   string
		header               http.Header
		body                 io.Reader
		status               int
		wantHeader, wantBody string
	}{
		{"a success", "GET", "/v1/servers", nil, nil, 200, "Etag", "[]"},
		{"not modified", "GET", "/v1/servers", http.Header{"If-None-Match": {tag}}, nil, 304, "Etag", ""},
		{"HEAD", "HEAD", "/v1/servers", nil, nil, 200, "Content-Length", ""},
		{"OPTIONS", "OPTIONS", "/v1/servers", nil, nil, 204, "Allow", ""},
		{"no token", "GET", "/v1/servers", http.Header{"Authorization": nil}, nil, 401, "Www-Authenticate", `"unauthorized"`},
		{"another method", "PUT", "/v1/servers", nil, nil, 405, "Allow", `"method_not_allowed"`},
		{"an unknown path", "GET", "/v1/x", nil, nil, 404, "X-Request-Id", `"not_found"`},
		{"a missing scope before a bad query", "GET", "/v1/incidents?limit=0", nil, nil, 403, "Ratelimit", `"forbidden"`},
		{"a body of another type", "POST", "/v1/incidents", http.Header{"Content-Type": {"text/plain"}}, body("x"), 415, "X-Request-Id", `"unsupported`},
		{"a chunked body", "POST", "/v1/incidents", json, body("{}"), 422, "Ratelimit", `"title"`},
		{"a body above the limit", "POST", "/v1/incidents", json, body(strings.Repeat("x", 4<<10)), 413, "X-Request-Id", `"payload_too_large"`},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, text, err := s.do(s.client(t, true), test.method, test.path, test.header, test.body)
			if err != nil {
				t.Fatal(err)
			}
			if got.Proto != "HTTP/2.0" || got.StatusCode != test.status || !strings.Contains(text, test.wantBody) {
				t.Errorf("got %s %s %s", got.Proto, got.Status, text)
			}
			if test.wantHeader != "" && got.Header.Get(test.wantHeader) == "" {
				t.Errorf("no %s: %v", test.wantHeader, got.Header)
			}
		})
	}
	s.finish(t)
}
