package config_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"opsgate/cmd/internal/gate/config"
	"opsgate/internal/testkit"
)

func TestTracingEndpoints(t *testing.T) {
	const secret = "OPSGATE_TRACING_HEADERS=api-key=hunter2"
	for _, test := range []struct{ endpoint, refusal string }{
		{"http://collector:4318", ""},
		{"https://collector.example/otlp", ""},
		{"grpc://[::1]:4317", ""},
		{"grpcs://collector.example:443", ""},
		{"collector:4317", "must be http://host:port or grpc://host:port, with https or grpcs for TLS"},
		{"udp://collector:4317", "must be http://host:port or grpc://host:port, with https or grpcs for TLS"},
		{"grpc://collector", "needs a port with grpc, for example 4317"},
		{"grpcs://collector:4317/v1/traces", "must not have a path with grpcs"},
		{"https://me:hunter2@collector", "must not have a user, query or fragment: put credentials into tracing.headers"},
	} {
		_, err := config.Load(config.Options{
			NoFile: true, Defaults: upstreams(), Environment: []string{"OPSGATE_TRACING_ENDPOINT=" + test.endpoint, secret},
		})
		switch {
		case test.refusal == "" && err != nil:
			t.Errorf("%s: %v", test.endpoint, err)
		case test.refusal != "" && (err == nil || !strings.HasSuffix(err.Error(), ": tracing.endpoint: "+test.refusal)):
			t.Errorf("%s: got %v, want %s", test.endpoint, err, test.refusal)
		case err != nil && strings.Contains(err.Error(), "hunter2"):
			t.Errorf("the error contains the secret: %v", err)
		}
	}
}

func TestHeadersOfTheCollector(t *testing.T) {
	got, err := load("testdata/full.good.yaml")
	testkit.Must(t, err)
	headers, err := got.Tracing.HeaderValues()
	if diff := cmp.Diff(map[string]string{"api-key": "hunter2", "tenant": "a,b"}, headers); diff != "" || err != nil {
		t.Error(diff, err)
	}
}

func TestWarningsOfTracing(t *testing.T) {
	for _, test := range []struct{ text, want string }{
		{"tracing: {trust_parent: always}\n",
			"opsgate.yaml:1: tracing.trust_parent: is always: any client can make the gateway record all of its requests, with ids of its choice"},
		{"tracing: {endpoint: \"grpc://collector:4317\", headers: \"${HEADERS}\"}\n",
			"opsgate.yaml:1: tracing.headers: go over the network in plaintext: use grpcs in tracing.endpoint"},
		{"tracing: {endpoint: \"grpc://127.0.0.1:4317\", headers: \"${HEADERS}\"}\n", ""},
		{"tracing: {headers: \"${HEADERS}\"}\n",
			"opsgate.yaml:1: tracing.endpoint: is empty: tracing.headers and tracing.tls have no effect"},
	} {
		if got := loadText(t, test.text, "HEADERS=api-key=hunter2").Warnings; got.Error() != test.want {
			t.Errorf("%s: got %q, want %q", test.text, got, test.want)
		}
	}
}
