package deploytest

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"opsgate/internal/certs/certstest"
	"opsgate/internal/testkit"
	"opsgate/ratelimit/redisstore/redistest"
)

// metric has the values of each label of a metric.
type metric map[string]map[string]bool

// system is a gateway with all features (Redis, TLS, traces), its services and its Redis.
type system struct {
	client  *http.Client
	admin   string // URL
	api     string // URL
	file    string // configuration
	backend *testkit.Process
	watched string // URL of the backend's metrics
}

func startSystem(t *testing.T) *system {
	t.Helper()
	redis, dir, authority := redistest.Start(t), t.TempDir(), certstest.NewAuthority(t, "root")
	authority.Write(t, dir, "gateway")
	backend, services := start(t, "opsbackend", "--listen=127.0.0.1:0", "--admin-listen=127.0.0.1:0", "--data-dir="+dir, "--seed=demo")
	file := filepath.Join(dir, "opsgate.yaml")
	write(t, file, configuration(dir, redis.Addr(), fmt.Sprint(services["address"])))
	_, gateway := start(t, "opsgate", "--config="+file)
	s := &system{
		client: &http.Client{Transport: &http.Transport{TLSClientConfig: authority.Config(t, "client")}},
		admin:  fmt.Sprint("http://", gateway["admin_listen"]), api: fmt.Sprint("https://", gateway["listen"], "/v1/"), file: file, backend: backend,
		watched: fmt.Sprint("http://", services["admin"], "/metrics"),
	}
	testkit.Eventually(t, "the gateway is ready", func() bool { return strings.Contains(get(t, s.client, s.admin+"/readyz", ""), `"status":"ready"`) })
	return s
}

// use sends several kinds of requests.
func (s *system) use(t *testing.T) {
	t.Helper()
	for _, path := range []string{"me", "servers", "nowhere"} {
		get(t, s.client, s.api+path, demoToken)
	}
	get(t, s.client, s.api+"servers", "")
}

// openBreaker stops the services and sends requests until a breaker is open.
func (s *system) openBreaker(t *testing.T) {
	t.Helper()
	s.backend.Kill()
	testkit.Eventually(t, "a breaker is open", func() bool {
		get(t, s.client, s.api+"servers", demoToken)
		return strings.Contains(get(t, s.client, s.admin+"/metrics", ""), `opsgate_upstream_breaker_state{service="fleet",state="open"} 1`)
	})
}

// refuseReload makes the configuration on disk invalid.
func (s *system) refuseReload(t *testing.T) {
	t.Helper()
	write(t, s.file, strings.Replace(read(t, s.file), "/key.pem", "/missing.pem", 1)+"listn: x\n")
	testkit.Eventually(t, "the configuration is refused", func() bool {
		return strings.Contains(get(t, s.client, s.admin+"/metrics", ""), "opsgate_config_refused{")
	})
}

// scraped returns the metrics of the reference backend, and of a gateway that has answered several
// kinds of requests, has refused a configuration, and whose services were stopped.
func scraped(t *testing.T) map[string]metric {
	t.Helper()
	s := startSystem(t)
	metrics := parse(t, get(t, s.client, s.watched, ""))
	s.use(t)
	s.refuseReload(t)
	s.openBreaker(t)
	maps.Copy(metrics, parse(t, get(t, s.client, s.admin+"/metrics", "")))
	return metrics
}

// demoToken has all scopes in the demo data. README.md shows it.
const demoToken = "ops_live_i61zC1oRdIhT4hMPomKNO9vXEMSsCQ4TmzBG"

func configuration(dir, redis, services string) string {
	upstreams := new(strings.Builder)
	for _, service := range []string{"fleet", "monitoring", "incident", "audit", "identity"} {
		fmt.Fprintf(upstreams, "  %s: {address: %s}\n", service, services)
	}
	return fmt.Sprintf(`listen: 127.0.0.1:0
tls: {cert_file: %[1]s/cert.pem, key_file: %[1]s/key.pem}
admin: {listen: 127.0.0.1:0}
shutdown: {drain_wait: 0s}
rate_limit:
  store: redis
  redis: {addresses: [%[2]s]}
  limits: [{name: minute, requests: 100000, per: 1m}, {name: trial, requests: 1, per: 1s, shadow: true}]
tracing: {endpoint: http://127.0.0.1:1}
upstreams:
%[3]s`, dir, redis, upstreams)
}

// get sends a request and returns the body of the response, or "" without a response.
func get(t *testing.T, client *http.Client, url, token string) string {
	t.Helper()
	request, err := http.NewRequestWithContext(context.WithoutCancel(t.Context()), http.MethodGet, url, http.NoBody)
	testkit.Must(t, err)
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	response, err := client.Do(request)
	if err != nil {
		return ""
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	testkit.Must(t, err)
	return string(body)
}

func parse(t *testing.T, text string) map[string]metric {
	t.Helper()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(text))
	testkit.Must(t, err)
	metrics := map[string]metric{}
	for name, family := range families {
		names := []string{name}
		if strings.HasPrefix(family.GetType().String(), "HISTOGRAM") {
			names = []string{name + "_bucket", name + "_sum", name + "_count"}
		}
		for _, name := range names {
			m := metric{}
			for _, series := range family.GetMetric() {
				for _, label := range series.GetLabel() {
					m.add(label.GetName(), label.GetValue())
				}
				for _, bucket := range series.GetHistogram().GetBucket() {
					m.add("le", fmt.Sprint(bucket.GetUpperBound()))
				}
				for _, quantile := range series.GetSummary().GetQuantile() {
					m.add("quantile", fmt.Sprint(quantile.GetQuantile()))
				}
			}
			metrics[name] = m
		}
	}
	return metrics
}

func (m metric) add(label, value string) {
	if m[label] == nil {
		m[label] = map[string]bool{}
	}
	m[label][value] = true
}
