package admin_test

import (
	"bytes"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"opsgate/backendclient/testkit"
	"opsgate/cmd/internal/gate/admin"
	"opsgate/cmd/internal/kit/logging"
)

// refused returns the number of counted refusals by reason.
func refused(t *testing.T, a *admin.Admin) map[string]float64 {
	t.Helper()
	registry := prometheus.NewRegistry()
	registry.MustRegister(a.Refusals())
	families, err := registry.Gather()
	if err != nil || len(families) != 1 || families[0].GetName() != "opsgate_admin_refused_total" {
		t.Fatalf("got %v, %v", families, err)
	}
	counts := map[string]float64{}
	for _, m := range families[0].GetMetric() {
		counts[m.GetLabel()[0].GetValue()] = m.GetCounter().GetValue()
	}
	return counts
}

func TestRefusedAccessIsLoggedAndCounted(t *testing.T) {
	const loopback = "127.0.0.1:9090"
	for _, test := range []struct {
		reason         string
		access         admin.Access
		method, target string
		change         func(*http.Request)
		logged, path   string // method and template; "" for an unknown path or method
	}{
		{"token", admin.Access{Token: adminToken}, "GET", "/admin/config", nil, "GET", "/admin/config"},
		{"token", admin.Access{Token: adminToken}, "DELETE", "/admin/limits/tok-1", header("Authorization", "Bearer guessed"), "DELETE", "/admin/limits/{token_id}"},
		{"token", admin.Access{Token: adminToken}, "GET", "/debug/pprof/heap", nil, "GET", "/debug/pprof/"},
		{"token", admin.Access{Token: adminToken}, "GET", "/nothing", nil, "", ""},
		{"token", admin.Access{Token: adminToken}, "POST", "/admin/config", nil, "", ""},
		{"certificate", admin.Access{ClientCertificates: true}, "GET", "/metrics", nil, "GET", "/metrics"},
		{"host", admin.Access{Listen: loopback}, "GET", "/metrics", host("evil.example"), "GET", "/metrics"},
		{"site", admin.Access{}, "GET", "/metrics", header("Sec-Fetch-Site", "cross-site"), "GET", "/metrics"},
	} {
		t.Run(test.reason+" "+test.method+" "+test.target, func(t *testing.T) {
			log := new(bytes.Buffer)
			a := newAdmin(new(fakeInspector), test.access, log)
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

func TestPermittedAccessIsNotCounted(t *testing.T) {
	log := new(bytes.Buffer)
	a := newAdmin(new(fakeInspector), admin.Access{Token: adminToken}, log)
	send(a, "GET", "/livez")
	send(a, "GET", "/admin/config", header("Authorization", "Bearer "+adminToken))
	for reason, n := range refused(t, a) {
		if n != 0 {
			t.Errorf("%s: %v", reason, n)
		}
	}
	if log.Len() != 0 {
		t.Errorf("logged %s", log)
	}
}

func TestRefusalLogHasNoCredentialsAndNoPaths(t *testing.T) {
	log := new(bytes.Buffer)
	a := newAdmin(new(fakeInspector), admin.Access{Token: adminToken}, log)
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
	o := options()
	o.Access.Token, o.Logger, o.RefusalLines = adminToken, slog.New(slog.NewJSONHandler(log, nil)), limiter.Lines("admin", 3)
	a := admin.New(o)
	for range 20 {
		send(a, "GET", "/livez/")
	}
	if n := strings.Count(log.String(), "\n"); n != 3 || refused(t, a)["token"] != 20 {
		t.Errorf("%d lines, counted %v", n, refused(t, a))
	}
}
