package admin_test

import (
	"io"
	"net/http"
	"testing"

	"opsgate/cmd/internal/gate/admin"
)

func TestDocumentsNeedNoToken(t *testing.T) {
	from := func(site, mode, dest string) []func(*http.Request) {
		return []func(*http.Request){header("Sec-Fetch-Site", site), header("Sec-Fetch-Mode", mode), header("Sec-Fetch-Dest", dest)}
	}
	bearer := header("Authorization", "Bearer "+adminToken)
	token, certificate := admin.Access{Token: adminToken}, admin.Access{ClientCertificates: true}
	for _, test := range []struct {
		name        string
		access      admin.Access
		change      []func(*http.Request)
		page, state int
	}{
		{"nothing is required", admin.Access{}, nil, 200, 200},
		{"no token", token, nil, 200, 401},
		{"the token", token, []func(*http.Request){bearer}, 200, 200},
		{"another token", token, []func(*http.Request){header("Authorization", "Bearer x")}, 200, 401},
		{"no certificate", certificate, nil, 403, 403},
		{"a link in an alert", token, from("cross-site", "navigate", "document"), 200, 403},
		{"an iframe of another site", token, from("cross-site", "navigate", "iframe"), 403, 403},
		{"a request of another site", token, append(from("cross-site", "no-cors", "empty"), bearer), 403, 403},
		{"by a rebound name", admin.Access{Listen: "127.0.0.1:9090"}, append(from("none", "navigate", "document"), host("evil.example")), 403, 403},
	} {
		t.Run(test.name, func(t *testing.T) {
			a := newAdmin(new(fakeInspector), test.access, io.Discard)
			for path, want := range map[string]int{"/": test.page, "/runbooks/limits.html": test.page, "/admin/state": test.state} {
				got := send(a, http.MethodGet, path, test.change...)
				if got.Code != want || got.Header().Get("X-Content-Type-Options") != "nosniff" {
					t.Errorf("%s: got %d %v %s, want %d", path, got.Code, got.Header(), got.Body, want)
				}
			}
		})
	}
}

func TestOnlyDocumentsNeedNoToken(t *testing.T) {
	a := newAdmin(new(fakeInspector), admin.Access{Token: adminToken}, io.Discard)
	for _, target := range []string{"//", "/.", "/index.html", "/admin/", "/metrics", "/debug/pprof/", "/runbooks", "/runbooks/", "/runbooks/../metrics",
		"/runbooks/x/y", "/runbooks//metrics", "/runbooks/%2e%2e/metrics"} {
		if got := send(a, http.MethodGet, target); got.Code != 401 {
			t.Errorf("%s: got %d", target, got.Code)
		}
	}
	if got := send(a, http.MethodGet, "/?token="+tokenPrefix+"x"); got.Code != 400 {
		t.Errorf("an API token in the URL: got %d", got.Code)
	}
	if got := send(a, http.MethodPost, "/"); got.Code != 405 {
		t.Errorf("POST to the page: got %d", got.Code)
	}
}
