package wiring_test

import (
	"flag"
	"log/slog"
	"regexp"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"opsgate/cmd/internal/gate/config"
	"opsgate/cmd/internal/gate/wiring"
	"opsgate/cmd/internal/test/metricspage"
	"opsgate/cmd/internal/test/servicestest"
	"opsgate/internal/certs/certstest"
	"opsgate/internal/filereader"
	"opsgate/internal/testkit"
	"opsgate/internal/tracing/tracingtest"
	"opsgate/ratelimit/redisstore/redistest"
)

var update = flag.Bool("update", false, "write the table of the gateway's metrics")

// everything returns a configuration with all optional parts, whose services, Redis and collector
// are all at one address.
func everything(t *testing.T, address string) (config.Loaded, *certstest.Authority) {
	t.Helper()
	c := settings(address)
	c.RateLimit.Limits = append(c.RateLimit.Limits, config.Limit{Name: "tried", Requests: 1, Per: c.RateLimit.Limits[0].Per, Shadow: true})
	c.RateLimit.Store, c.RateLimit.Redis.Addresses = config.StoreRedis, []string{address}
	c.Tracing.Endpoint = "http://" + address
	authority, files := newTLSFiles(t)
	c.TLS = config.TLS{CertFile: config.File(files[0]), KeyFile: config.File(files[1])}
	c.Admin.TLS = config.AdminTLS{CertFile: config.File(files[0]), KeyFile: config.File(files[1])}
	return config.Loaded{Config: c, Certificates: []config.Certificate{{Key: "tls.cert_file"}}, Reader: new(filereader.Reader)}, authority
}

// atStart returns a gateway with all optional parts, which does not run. No part waits for what it
// connects to.
func atStart(t *testing.T) *wiring.Gateway {
	t.Helper()
	c, _ := everything(t, "127.0.0.1:1")
	g, err := listen(t, c)
	testkit.Must(t, err)
	t.Cleanup(func() { testkit.Must(t, g.Close()) })
	return g
}

func TestEveryRegisteredMetricIsDocumented(t *testing.T) {
	metricspage.Check(t, "opsgate", atStart(t).Registry(), *update)
}

// used runs a gateway with all optional parts, which has answered requests and refused a reload.
func used(t *testing.T) *running {
	t.Helper()
	services := servicestest.Start(t)
	services.Names = [2]string{"a token's name", "a team's name"}
	c, authority := everything(t, services.Address)
	c.RateLimit.Redis.Addresses, c.Tracing.Endpoint = []string{redistest.Start(t).Addr()}, tracingtest.Start(t).HTTP
	c.Admin.TLS = config.AdminTLS{}
	r := &running{token: services.Token}
	r.run(t, wiring.Options{
		Loaded: c, Logger: slog.New(slog.DiscardHandler), LogLevel: new(slog.LevelVar),
		Load: func() (config.Loaded, error) {
			return config.Loaded{}, config.Problems{{Key: "listen", Text: "is refused"}}
		},
	})
	s := &secure{running: r, authority: authority}
	client := s.client(t, true)
	for _, path := range []string{"/v1/servers", "/v1/nothing"} {
		if _, _, err := s.do(client, "GET", path, nil); err != nil {
			t.Fatal(err)
		}
	}
	waits := regexp.MustCompile(`opsgate_http_request_wait_seconds_count\{part="(identity|limiter|service)"\} [1-9]`)
	testkit.Eventually(t, "both requests, their waits and a refused reload are counted", func() bool {
		metrics := r.get(t, r.AdminAddress(), "/metrics").body
		return strings.Contains(metrics, `cause="route"`) && strings.Contains(metrics, "opsgate_config_refused{") &&
			len(waits.FindAllString(metrics, -1)) == 3
	})
	return r
}

func TestMetricsMatchTheirDocumentation(t *testing.T) {
	r := used(t)
	metrics := r.get(t, r.AdminAddress(), "/metrics").body
	metricspage.CheckSeries(t, "opsgate", atStart(t).Registry(), r.Registry())
	if problems, err := promlint.New(strings.NewReader(metrics)).Lint(); err != nil || len(problems) > 0 {
		t.Errorf("the linter of Prometheus reports %v, %+v", err, problems)
	}
	for _, word := range regexp.MustCompile(`\b(?:go|process)_[a-z_]+[a-z]`).FindAllString(metricspage.Read(t), -1) {
		if !strings.Contains(metrics, "\n# TYPE "+word+" ") {
			t.Errorf("there is no %s", word)
		}
	}
	for _, secret := range []string{r.token, "a token's name", "a team's name"} {
		if strings.Contains(metrics, secret) {
			t.Errorf("the metrics have %s", secret)
		}
	}
}
