package admin_test

import (
	"cmp"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	"opsgate/cmd/internal/gate/admin"
)

const adminToken = "the operators' token"

func host(name string) func(*http.Request) { return func(r *http.Request) { r.Host = name } }

// A target is what a request is for.
type target struct {
	method, path string
	probe        bool
}

// paths has a path of each kind.
var paths = []target{
	{"GET", "/livez", true},
	{"GET", "/readyz", true},
	{"GET", "/metrics", false},
	{"GET", "/debug/pprof/cmdline", false},
	{"POST", "/debug/pprof/symbol", false},
	{"GET", "/admin/config", false},
	{"GET", "/admin/limits", false},
	{"DELETE", "/admin/limits/tok-1", false},
	{"GET", "/nothing", false},
	{"GET", "/livez/", false},
	{"GET", "//livez", false},
}

func TestAccess(t *testing.T) {
	for _, test := range []struct {
		name        string
		access      admin.Access
		change      []func(*http.Request)
		probe, page int // status if refused; 0 if permitted
	}{
		{"nothing is required", admin.Access{}, nil, 0, 0},
		{"the token", admin.Access{Token: adminToken}, []func(*http.Request){header("Authorization", "Bearer "+adminToken)}, 0, 0},
		{"the token, the scheme in capitals", admin.Access{Token: adminToken}, []func(*http.Request){header("Authorization", "BEARER "+adminToken)}, 0, 0},
		{"no token", admin.Access{Token: adminToken}, nil, 0, 401},
		{"another token", admin.Access{Token: adminToken}, []func(*http.Request){header("Authorization", "Bearer "+adminToken+"x")}, 0, 401},
		{"an empty token", admin.Access{Token: adminToken}, []func(*http.Request){header("Authorization", "Bearer ")}, 0, 401},
		{"another scheme", admin.Access{Token: adminToken}, []func(*http.Request){header("Authorization", "Basic "+adminToken)}, 0, 401},
		{"two tokens", admin.Access{Token: adminToken}, []func(*http.Request){
			header("Authorization", "Bearer "+adminToken), header("Authorization", "Bearer "+adminToken),
		}, 0, 401},
		{"no certificate", admin.Access{ClientCertificates: true}, nil, 0, 403},
		{"a token and no certificate", admin.Access{ClientCertificates: true, Token: adminToken}, []func(*http.Request){header("Authorization", "Bearer "+adminToken)}, 0, 403},
		{"typed into a browser", admin.Access{}, []func(*http.Request){header("Sec-Fetch-Site", "none")}, 0, 0},
		{"a page of this listener", admin.Access{}, []func(*http.Request){header("Sec-Fetch-Site", "same-origin")}, 0, 0},
		{"a page of the same site", admin.Access{}, []func(*http.Request){header("Sec-Fetch-Site", "same-site")}, 403, 403},
		{"a page of another site", admin.Access{}, []func(*http.Request){header("Sec-Fetch-Site", "cross-site")}, 403, 403},
		{"a page of another site with the token", admin.Access{Token: adminToken}, []func(*http.Request){
			header("Authorization", "Bearer "+adminToken), header("Sec-Fetch-Site", "cross-site"),
		}, 403, 403},
		{"by its address", admin.Access{Listen: "127.0.0.1:9090"}, []func(*http.Request){host("127.0.0.1:9090")}, 0, 0},
		{"by another port, as through a tunnel", admin.Access{Listen: "127.0.0.1:9090"}, []func(*http.Request){host("localhost:12345")}, 0, 0},
		{"by HTTP/1.0, without a name", admin.Access{Listen: "127.0.0.1:9090"}, []func(*http.Request){host("")}, 0, 0},
		{"by a name in capitals", admin.Access{Listen: "localhost:9090"}, []func(*http.Request){host("LocalHost")}, 0, 0},
		{"by IPv6", admin.Access{Listen: "[::1]:9090"}, []func(*http.Request){host("[::1]:9090")}, 0, 0},
		{"by IPv6 without a port", admin.Access{Listen: "[::1]:9090"}, []func(*http.Request){host("[::1]")}, 0, 0},
		{"by a rebound name", admin.Access{Listen: "127.0.0.1:9090"}, []func(*http.Request){host("evil.example:9090")}, 403, 403},
		{"by a name with the prefix of ours", admin.Access{Listen: "127.0.0.1:9090"}, []func(*http.Request){host("127.0.0.1.evil.example")}, 403, 403},
		{"by any name if the listener is not on loopback", admin.Access{Listen: "10.0.0.7:9090"}, []func(*http.Request){host("gate-7.internal:9090")}, 0, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			for _, at := range paths {
				got := send(newAdmin(new(fakeInspector), test.access, io.Discard), at.method, at.path, test.change...)
				want := test.page
				if at.probe {
					want = test.probe
				}
				refused := got.Code == 401 || got.Code == 403
				if refused != (want != 0) || refused && got.Code != want {
					t.Errorf("%s %s: got %d %s, want %d", at.method, at.path, got.Code, got.Body, want)
				}
				if got.Code == 401 && got.Header().Get("Www-Authenticate") == "" {
					t.Errorf("%s %s: no challenge", at.method, at.path)
				}
				if refused {
					decode[admin.Failure](t, got)
				}
			}
		})
	}
}

// The token for metrics opens GET /metrics, and HEAD, and nothing else. The token of operators opens everything.
func TestTokenForMetricsOpensMetricsAlone(t *testing.T) {
	const metricsToken = "the token of Prometheus"
	both := admin.Access{Token: adminToken, MetricsToken: metricsToken}
	metricsOnly := admin.Access{MetricsToken: metricsToken}
	certificates := admin.Access{MetricsToken: metricsToken, ClientCertificates: true}
	requests := slices.Clone(paths)
	for _, path := range []string{"/metrics/", "//metrics", "/metrics/../admin/config", "/METRICS", "/debug/pprof/"} {
		requests = append(requests, target{"GET", path, false})
	}
	requests = append(requests, target{"POST", "/metrics", false})
	for _, test := range []struct {
		name            string
		access          admin.Access
		token           string // sent
		metrics, others int    // status if refused; 0 if permitted
	}{
		{"both, the token of operators", both, adminToken, 0, 0},
		{"both, the token for metrics", both, metricsToken, 0, 401},
		{"both, another token", both, metricsToken + "x", 401, 401},
		{"both, the two joined", both, adminToken + metricsToken, 401, 401},
		{"both, an empty token", both, "", 401, 401},
		{"metrics only, the token for metrics", metricsOnly, metricsToken, 0, 0},
		{"metrics only, another token", metricsOnly, adminToken, 401, 0},
		{"metrics only, an empty token", metricsOnly, "", 401, 0},
		{"certificates, the token for metrics without one", certificates, metricsToken, 403, 403},
		{"none configured, the token for metrics", admin.Access{Token: adminToken}, metricsToken, 401, 401},
	} {
		t.Run(test.name, func(t *testing.T) {
			for _, method := range []string{"GET", "HEAD"} {
				got := send(newAdmin(new(fakeInspector), test.access, io.Discard), method, "/metrics", header("Authorization", "Bearer "+test.token))
				if want := cmp.Or(test.metrics, 200); got.Code != want {
					t.Errorf("%s /metrics: got %d, want %d", method, got.Code, want)
				}
			}
			for _, at := range requests {
				if at.probe || at.method == "GET" && at.path == "/metrics" {
					continue
				}
				got := send(newAdmin(new(fakeInspector), test.access, io.Discard), at.method, at.path, header("Authorization", "Bearer "+test.token))
				refused := got.Code == 401 || got.Code == 403
				if refused != (test.others != 0) || refused && got.Code != test.others {
					t.Errorf("%s %s: got %d %s, want %d", at.method, at.path, got.Code, got.Body, test.others)
				}
			}
		})
	}
}

func TestOnlyVerifiedRequestsHoldTheirConnections(t *testing.T) {
	held, total := 0, 0
	o := options()
	o.Access.Token = adminToken
	o.Hold = func(context.Context) func() {
		held, total = held+1, total+1
		return func() { held-- }
	}
	server := admin.New(o)
	for _, test := range []struct {
		path, token string
		want        int
	}{
		{"/metrics", adminToken, 1}, {"/metrics", "another", 0}, {"/metrics", "", 0}, {"/livez", "", 0}, {"/livez", adminToken, 0},
	} {
		total = 0
		r := httptest.NewRequest(http.MethodGet, test.path, http.NoBody)
		if test.token != "" {
			r.Header.Set("Authorization", "Bearer "+test.token)
		}
		server.ServeHTTP(httptest.NewRecorder(), r)
		if total != test.want || held != 0 {
			t.Errorf("%s with %q: held %d times, %d not released, want %d and 0", test.path, test.token, total, held, test.want)
		}
	}
}
