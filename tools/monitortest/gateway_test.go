package monitortest

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	mathrand "math/rand/v2"
	"net"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// metric has the values of each label of a metric.
type metric map[string]map[string]bool

// system is a gateway with all features (Redis, TLS, traces, the record of demand), its services and its Redis.
type system struct {
	client  *http.Client
	admin   string // URL
	api     string // URL
	file    string // configuration
	backend *process
}

func startSystem(t *testing.T) *system {
	t.Helper()
	redis := need(t, "redis-server")
	dir, ports := t.TempDir(), freePorts(t, 4)
	public, admin, services, store := ports[0], ports[1], ports[2], ports[3]
	roots := certificate(t, dir)
	file := filepath.Join(dir, "opsgate.yaml")
	write(t, file, configuration(dir, ports))
	start(t, redis, "--port", store, "--bind", "127.0.0.1", "--save", "", "--dir", dir)
	s := &system{
		client: &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}}},
		admin:  "http://127.0.0.1:" + admin, api: "https://127.0.0.1:" + public + "/v1/", file: file,
	}
	s.backend = start(t, filepath.Join(programs, "opsbackend"), "serve", "--listen", "127.0.0.1:"+services, "--data-dir", dir, "--seed", "demo")
	start(t, filepath.Join(programs, "opsgate"), "serve", "--config", file)
	await(t, "the gateway is ready", func() bool { return strings.Contains(get(t, s.client, s.admin+"/readyz", ""), `"status":"ready"`) })
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
	s.backend.kill()
	await(t, "a breaker is open", func() bool {
		get(t, s.client, s.api+"servers", demoToken)
		return strings.Contains(get(t, s.client, s.admin+"/metrics", ""), `opsgate_upstream_breaker_state{service="fleet",state="open"} 1`)
	})
}

// refuseReload makes the configuration on disk invalid.
func (s *system) refuseReload(t *testing.T) {
	t.Helper()
	write(t, s.file, strings.Replace(read(t, s.file), "/key.pem", "/missing.pem", 1)+"listn: x\n")
	await(t, "the configuration is refused", func() bool {
		return strings.Contains(get(t, s.client, s.admin+"/metrics", ""), "opsgate_config_refused{")
	})
}

// scraped returns the metrics of a gateway that has answered several kinds of requests, has refused a configuration, and whose services
// were stopped.
func scraped(t *testing.T) map[string]metric {
	t.Helper()
	s := startSystem(t)
	s.use(t)
	s.refuseReload(t)
	s.openBreaker(t)
	return parse(t, get(t, s.client, s.admin+"/metrics", ""))
}

// demoToken has all scopes in the demo data. README.md shows it.
const demoToken = "ops_live_i61zC1oRdIhT4hMPomKNO9vXEMSsCQ4TmzBG"

func configuration(dir string, ports []string) string {
	upstreams := new(strings.Builder)
	for _, service := range []string{"fleet", "monitoring", "incident", "audit", "identity"} {
		fmt.Fprintf(upstreams, "  %s: {address: 127.0.0.1:%s}\n", service, ports[2])
	}
	return fmt.Sprintf(`listen: 127.0.0.1:%s
tls: {cert_file: %[2]s/cert.pem, key_file: %[2]s/key.pem}
admin: {listen: 127.0.0.1:%s}
rate_limit:
  store: redis
  redis: {addresses: [127.0.0.1:%s]}
  demand: {file: %[2]s/demand.jsonl}
  limits: [{name: minute, requests: 100000, per: 1m}, {name: trial, requests: 1, per: 1s, shadow: true}]
tracing: {endpoint: http://127.0.0.1:1}
upstreams:
%[5]s`, ports[0], dir, ports[1], ports[3], upstreams)
}

// get sends a request and returns the body of the response, or "" without a response.
func get(t *testing.T, client *http.Client, url, token string) string {
	t.Helper()
	request, err := http.NewRequestWithContext(context.WithoutCancel(t.Context()), http.MethodGet, url, http.NoBody)
	must(t, err)
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	response, err := client.Do(request)
	if err != nil {
		return ""
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	must(t, err)
	return string(body)
}

func parse(t *testing.T, text string) map[string]metric {
	t.Helper()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(text))
	must(t, err)
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

// certificate writes a self-signed certificate and its key, and returns it as roots.
func certificate(t *testing.T, dir string) *x509.CertPool {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), IsCA: true, BasicConstraintsValid: true,
		NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	must(t, err)
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	must(t, err)
	encoded := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	write(t, filepath.Join(dir, "cert.pem"), string(encoded))
	write(t, filepath.Join(dir, "key.pem"), string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret})))
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(encoded)
	return roots
}

// freePorts returns different free ports below the range of ephemeral ports, so that no connection gets one before a program binds it.
func freePorts(t *testing.T, count int) (ports []string) {
	t.Helper()
	var held []net.Listener
	defer func() {
		for _, listener := range held {
			_ = listener.Close()
		}
	}()
	for range 100 {
		port := strconv.Itoa(10_000 + mathrand.N(20_000))
		listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:"+port)
		if err != nil {
			continue
		}
		held = append(held, listener)
		if ports = append(ports, port); len(ports) == count {
			return ports
		}
	}
	t.Fatalf("%d of a hundred ports are free, want %d", len(ports), count)
	return nil
}
