package admin

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"opsgate/internal/logging"
	"opsgate/internal/testkit"
)

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
	parts := options(t)
	for _, test := range []struct {
		name        string
		access      Access
		change      []func(*http.Request)
		probe, page int // status if refused; 0 if permitted
	}{
		{"nothing is required", Access{}, nil, 0, 0},
		{"the token", Access{Token: secretToken}, []func(*http.Request){header("Authorization", "Bearer "+secretToken)}, 0, 0},
		{"the token, the scheme in capitals", Access{Token: secretToken}, []func(*http.Request){header("Authorization", "BEARER "+secretToken)}, 0, 0},
		{"no token", Access{Token: secretToken}, nil, 0, 401},
		{"another token", Access{Token: secretToken}, []func(*http.Request){header("Authorization", "Bearer "+secretToken+"x")}, 0, 401},
		{"an empty token", Access{Token: secretToken}, []func(*http.Request){header("Authorization", "Bearer ")}, 0, 401},
		{"another scheme", Access{Token: secretToken}, []func(*http.Request){header("Authorization", "Basic "+secretToken)}, 0, 401},
		{"two tokens", Access{Token: secretToken}, []func(*http.Request){
			header("Authorization", "Bearer "+secretToken), header("Authorization", "Bearer "+secretToken),
		}, 0, 401},
		{"no certificate", Access{ClientCertificates: true}, nil, 0, 403},
		{"a token and no certificate", Access{ClientCertificates: true, Token: secretToken}, []func(*http.Request){header("Authorization", "Bearer "+secretToken)}, 0, 403},
		{"typed into a browser", Access{}, []func(*http.Request){header("Sec-Fetch-Site", "none")}, 0, 0},
		{"a page of this listener", Access{}, []func(*http.Request){header("Sec-Fetch-Site", "same-origin")}, 0, 0},
		{"a page of the same site", Access{}, []func(*http.Request){header("Sec-Fetch-Site", "same-site")}, 403, 403},
		{"a page of another site", Access{}, []func(*http.Request){header("Sec-Fetch-Site", "cross-site")}, 403, 403},
		{"a page of another site with the token", Access{Token: secretToken}, []func(*http.Request){
			header("Authorization", "Bearer "+secretToken), header("Sec-Fetch-Site", "cross-site"),
		}, 403, 403},
		{"a foreign origin, by an old browser", Access{}, []func(*http.Request){header("Origin", "https://evil.example")}, 403, 403},
		{"a document without an origin, by an old browser", Access{}, []func(*http.Request){header("Origin", "null")}, 403, 403},
		{"its own origin, by an old browser", Access{}, []func(*http.Request){header("Origin", "http://127.0.0.1:9090")}, 0, 0},
		{"by its address", Access{Listen: "127.0.0.1:9090"}, []func(*http.Request){host("127.0.0.1:9090")}, 0, 0},
		{"by another port, as through a tunnel", Access{Listen: "127.0.0.1:9090"}, []func(*http.Request){host("localhost:12345")}, 0, 0},
		{"by HTTP/1.0, without a name", Access{Listen: "127.0.0.1:9090"}, []func(*http.Request){host("")}, 0, 0},
		{"by a name in capitals", Access{Listen: "localhost:9090"}, []func(*http.Request){host("LocalHost")}, 0, 0},
		{"by IPv6", Access{Listen: "[::1]:9090"}, []func(*http.Request){host("[::1]:9090")}, 0, 0},
		{"by IPv6 without a port", Access{Listen: "[::1]:9090"}, []func(*http.Request){host("[::1]")}, 0, 0},
		{"by a rebound name", Access{Listen: "127.0.0.1:9090"}, []func(*http.Request){host("evil.example:9090")}, 403, 403},
		{"by a name with the prefix of ours", Access{Listen: "127.0.0.1:9090"}, []func(*http.Request){host("127.0.0.1.evil.example")}, 403, 403},
		{"by any name if the listener is not on loopback", Access{Listen: "10.0.0.7:9090"}, []func(*http.Request){host("gate-7.internal:9090")}, 0, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			for _, at := range paths {
				got := send(parts.withAccess(test.access, io.Discard), at.method, at.path, test.change...)
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
					decode[Failure](t, got)
				}
			}
		})
	}
}

// The token for metrics opens GET /metrics, and HEAD, and nothing else. The token of operators
// opens everything.
func TestTokenForMetricsOpensMetricsAlone(t *testing.T) {
	const metricsToken = "the token of Prometheus"
	both := Access{Token: secretToken, MetricsToken: metricsToken}
	metricsOnly := Access{MetricsToken: metricsToken}
	certificates := Access{MetricsToken: metricsToken, ClientCertificates: true}
	parts := options(t)
	requests := slices.Clone(paths)
	for _, path := range []string{"/metrics/", "//metrics", "/metrics/../admin/config", "/METRICS", "/debug/pprof/"} {
		requests = append(requests, target{"GET", path, false})
	}
	requests = append(requests, target{"POST", "/metrics", false})
	for _, test := range []struct {
		name            string
		access          Access
		token           string // sent
		metrics, others int    // status if refused; 0 if permitted
	}{
		{"both, the token of operators", both, secretToken, 0, 0},
		{"both, the token for metrics", both, metricsToken, 0, 401},
		{"both, another token", both, metricsToken + "x", 401, 401},
		{"both, the two joined", both, secretToken + metricsToken, 401, 401},
		{"both, an empty token", both, "", 401, 401},
		{"metrics only, the token for metrics", metricsOnly, metricsToken, 0, 0},
		{"metrics only, another token", metricsOnly, secretToken, 401, 0},
		{"metrics only, an empty token", metricsOnly, "", 401, 0},
		{"certificates, the token for metrics without one", certificates, metricsToken, 403, 403},
		{"none configured, the token for metrics", Access{Token: secretToken}, metricsToken, 401, 401},
	} {
		t.Run(test.name, func(t *testing.T) {
			for _, method := range []string{"GET", "HEAD"} {
				got := send(parts.withAccess(test.access, io.Discard), method, "/metrics", header("Authorization", "Bearer "+test.token))
				if want := max(test.metrics, 200); got.Code != want {
					t.Errorf("%s /metrics: got %d, want %d", method, got.Code, want)
				}
			}
			for _, at := range requests {
				if at.probe || at.method == "GET" && at.path == "/metrics" {
					continue
				}
				got := send(parts.withAccess(test.access, io.Discard), at.method, at.path, header("Authorization", "Bearer "+test.token))
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
	o := options(t)
	o.Access.Token = secretToken
	o.MarkBusy = func(context.Context) func() {
		held, total = held+1, total+1
		return func() { held-- }
	}
	server := New(o)
	for _, test := range []struct {
		path, token string
		want        int
	}{
		{"/metrics", secretToken, 1}, {"/metrics", "another", 0}, {"/metrics", "", 0}, {"/livez", "", 0}, {"/livez", secretToken, 0},
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

func TestDocumentsNeedNoToken(t *testing.T) {
	from := func(site, mode, dest string) []func(*http.Request) {
		return []func(*http.Request){header("Sec-Fetch-Site", site), header("Sec-Fetch-Mode", mode), header("Sec-Fetch-Dest", dest)}
	}
	bearer := header("Authorization", "Bearer "+secretToken)
	token, certificate, parts := Access{Token: secretToken}, Access{ClientCertificates: true}, options(t)
	for _, test := range []struct {
		name        string
		access      Access
		change      []func(*http.Request)
		page, state int
	}{
		{"nothing is required", Access{}, nil, 200, 200},
		{"no token", token, nil, 200, 401},
		{"the token", token, []func(*http.Request){bearer}, 200, 200},
		{"another token", token, []func(*http.Request){header("Authorization", "Bearer x")}, 200, 401},
		{"no certificate", certificate, nil, 403, 403},
		{"a link in an alert", token, from("cross-site", "navigate", "document"), 200, 403},
		{"an iframe of another site", token, from("cross-site", "navigate", "iframe"), 403, 403},
		{"a request of another site", token, append(from("cross-site", "no-cors", "empty"), bearer), 403, 403},
		{"by a rebound name", Access{Listen: "127.0.0.1:9090"}, append(from("none", "navigate", "document"), host("evil.example")), 403, 403},
	} {
		t.Run(test.name, func(t *testing.T) {
			a := parts.withAccess(test.access, io.Discard)
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
	a := options(t).withAccess(Access{Token: secretToken}, io.Discard)
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

// refused returns the number of counted refusals by reason.
func refused(t *testing.T, a *Admin) map[string]float64 {
	t.Helper()
	registry := prometheus.NewRegistry()
	registry.MustRegister(a)
	families, err := registry.Gather()
	testkit.Must(t, err)
	counts := map[string]float64{}
	for _, family := range families {
		for _, m := range family.GetMetric() {
			if family.GetName() == "opsgate_admin_refused_total" {
				counts[label(m, "reason")] = m.GetCounter().GetValue()
			}
		}
	}
	return counts
}

func TestRefusedAccessIsLoggedAndCounted(t *testing.T) {
	const loopback = "127.0.0.1:9090"
	parts := options(t)
	for _, test := range []struct {
		reason         string
		access         Access
		method, target string
		change         func(*http.Request)
		logged, path   string // method and template; "" for an unknown path or method
	}{
		{"token", Access{Token: secretToken}, "GET", "/admin/config", nil, "GET", "/admin/config"},
		{"token", Access{Token: secretToken}, "DELETE", "/admin/limits/tok-1", header("Authorization", "Bearer guessed"), "DELETE", "/admin/limits/{token_id}"},
		{"token", Access{Token: secretToken}, "GET", "/debug/pprof/heap", nil, "GET", "/debug/pprof/"},
		{"token", Access{Token: secretToken}, "GET", "/nothing", nil, "", ""},
		{"token", Access{Token: secretToken}, "POST", "/admin/config", nil, "", ""},
		{"certificate", Access{ClientCertificates: true}, "GET", "/metrics", nil, "GET", "/metrics"},
		{"host", Access{Listen: loopback}, "GET", "/metrics", host("evil.example"), "GET", "/metrics"},
		{"site", Access{}, "GET", "/metrics", header("Sec-Fetch-Site", "cross-site"), "GET", "/metrics"},
	} {
		t.Run(test.reason+" "+test.method+" "+test.target, func(t *testing.T) {
			log := new(bytes.Buffer)
			a := parts.withAccess(test.access, log)
			if test.change == nil {
				test.change = func(*http.Request) {}
			}
			send(a, test.method, test.target, test.change)
			want := map[string]any{"level": "WARN", "msg": "admin access refused", "reason": test.reason, "remote": "192.0.2.1:1234"}
			if test.path != "" {
				want["method"], want["path"] = test.logged, test.path
			}
			if diff := cmp.Diff(want, line(t, log)); diff != "" {
				t.Error(diff)
			}
			counts := map[string]float64{"host": 0, "site": 0, "certificate": 0, "token": 0}
			counts[test.reason] = 1
			if diff := cmp.Diff(counts, refused(t, a)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestRefusalLogHasNoCredentialsAndNoPaths(t *testing.T) {
	log := new(bytes.Buffer)
	a := options(t).withAccess(Access{Token: secretToken}, log)
	secret := tokenPrefix + "4f8Tb0d2cZx1sQ9rVn3yKw6mLp7hJgD0A1B2C3"
	for _, target := range []string{"/admin/limits/" + secret, "/" + secret, "/metrics?" + secret, "//" + secret} {
		send(a, "GET", target, header("Authorization", "Bearer "+secret), header("X-Operator", secret))
	}
	if text := log.String(); strings.Count(text, "\n") != 4 || strings.Contains(text, secret[len(tokenPrefix):]) {
		t.Errorf("logged %s", text)
	}
}

func TestRefusalLogIsLimitedAndCounterIsNot(t *testing.T) {
	log := new(bytes.Buffer)
	limiter, err := logging.NewLimiter(logging.LimiterOptions{
		Logger: slog.New(slog.DiscardHandler), Clock: time.Now, Registerer: prometheus.NewRegistry(), Service: "opsgate",
	})
	testkit.Must(t, err)
	o := options(t)
	o.Access.Token, o.Logger, o.RefusalLines = secretToken, slog.New(slog.NewJSONHandler(log, nil)), limiter.Lines("admin", 3)
	a := New(o)
	for range 20 {
		send(a, "GET", "/livez/")
	}
	if n := strings.Count(log.String(), "\n"); n != 3 || refused(t, a)["token"] != 20 {
		t.Errorf("%d lines, counted %v", n, refused(t, a))
	}
}
