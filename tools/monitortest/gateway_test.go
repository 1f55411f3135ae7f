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
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/expfmt"
)

// A metric has the labels that a gateway exposes it with, and each label's values.
type metric map[string]map[string]bool

// scraped returns what a gateway exposes of which everything is turned on: Redis, TLS, traces, the record of demand. It has answered
// requests of all sorts, and its services have been away.
func scraped(t *testing.T) map[string]metric {
	t.Helper()
	redis := need(t, "redis-server")
	programs := build(t, "opsgate", "opsbackend")
	dir, ports := t.TempDir(), freePorts(t, 4)
	public, admin, services, store := ports[0], ports[1], ports[2], ports[3]
	roots := certificate(t, dir)
	write(t, filepath.Join(dir, "opsgate.yaml"), configuration(dir, ports))
	start(t, redis, "--port", store, "--bind", "127.0.0.1", "--save", "", "--dir", dir)
	backend := start(t, filepath.Join(programs, "opsbackend"), "serve", "--listen", "127.0.0.1:"+services, "--data-dir", dir, "--seed", "demo")
	start(t, filepath.Join(programs, "opsgate"), "serve", "--config", filepath.Join(dir, "opsgate.yaml"))

	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}}}
	admins := "http://127.0.0.1:" + admin
	await(t, "the gateway is ready", func() bool { return strings.Contains(ask(t, client, admins+"/readyz", ""), `"status":"ready"`) })
	api := "https://127.0.0.1:" + public + "/v1/"
	for _, path := range []string{"me", "servers", "nowhere"} {
		ask(t, client, api+path, demoToken)
	}
	ask(t, client, api+"servers", "")
	backend.kill()
	await(t, "a breaker is open", func() bool {
		ask(t, client, api+"servers", demoToken)
		return strings.Contains(ask(t, client, admins+"/metrics", ""), `opsgate_upstream_breaker_state{service="fleet",state="open"} 1`)
	})
	return parse(t, ask(t, client, admins+"/metrics", ""))
}

// demoToken may do everything in the demo data, wherever that is. README.md shows it.
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

// ask makes a request and returns its answer's body; nothing while nobody answers.
func ask(t *testing.T, client *http.Client, url, token string) string {
	t.Helper()
	request, err := http.NewRequestWithContext(context.WithoutCancel(t.Context()), http.MethodGet, url, http.NoBody)
	must(t, err)
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	answer, err := client.Do(request)
	if err != nil {
		return ""
	}
	defer func() { _ = answer.Body.Close() }()
	body, err := io.ReadAll(answer.Body)
	must(t, err)
	return string(body)
}

func parse(t *testing.T, text string) map[string]metric {
	t.Helper()
	parser := new(expfmt.TextParser)
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

// certificate writes a certificate for this machine and its key, and returns the roots that vouch for it.
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
	shown := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	write(t, filepath.Join(dir, "cert.pem"), string(shown))
	write(t, filepath.Join(dir, "key.pem"), string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret})))
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(shown)
	return roots
}

// freePorts returns ports that nobody listens on. Their listeners are closed once all are open, so that the ports differ.
func freePorts(t *testing.T, count int) (ports []string) {
	t.Helper()
	var open []net.Listener
	for range count {
		listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
		must(t, err)
		open = append(open, listener)
		_, port, err := net.SplitHostPort(listener.Addr().String())
		must(t, err)
		ports = append(ports, port)
	}
	for _, listener := range open {
		must(t, listener.Close())
	}
	return ports
}
