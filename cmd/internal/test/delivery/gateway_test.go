package delivery

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"opsgate/backendclient/testkit"
	"opsgate/gateway/openapi/openapitest"
)

// A client calls the public API of a gateway with one token.
type client struct {
	t          *testing.T
	url, token string
	validator  *openapitest.Validator
}

// startGateway runs opsgate in front of a backend until the end of the test, and returns a client when the gateway reaches the backend.
func startGateway(t *testing.T, backend, token string) *client {
	t.Helper()
	var config strings.Builder
	config.WriteString("listen: 127.0.0.1:0\nadmin: {listen: 127.0.0.1:0}\nshutdown: {drain_wait: 0s}\n" +
		"rate_limit: {limits: [{requests: 1000000, per: 1s}]}\nupstreams:\n")
	for _, service := range []string{"fleet", "monitoring", "incident", "audit", "identity"} {
		fmt.Fprintf(&config, "  %s: {address: %q}\n", service, backend)
	}
	file := filepath.Join(t.TempDir(), "opsgate.yaml")
	testkit.Must(t, os.WriteFile(file, []byte(config.String()), 0o600))
	gateway := launch(t, "opsgate", nil, "serve", "--config="+file)
	c := &client{
		t: t, url: fmt.Sprint("http://", gateway.MustRecord(t, "serving")["listen"]), token: token, validator: openapitest.NewStrict(t),
	}
	testkit.Eventually(t, "the gateway reaches the backend", func() bool {
		status, _ := c.do(http.MethodGet, "/v1/incidents?limit=1", "")
		return status == http.StatusOK
	})
	return c
}

// do sends a request and validates the response.
func (c *client) do(method, target, body string) (status int, response []byte) {
	c.t.Helper()
	request, err := http.NewRequestWithContext(c.t.Context(), method, c.url+target, strings.NewReader(body))
	testkit.Must(c.t, err)
	request.Header.Set("Authorization", "Bearer "+c.token)
	if body != "" {
		request.Header.Set("Content-Type", "application/json")
	}
	answer, err := http.DefaultTransport.RoundTrip(request)
	testkit.Must(c.t, err)
	defer answer.Body.Close()
	response, err = io.ReadAll(answer.Body)
	testkit.Must(c.t, err)
	c.validator.CheckResponse(c.t, openapitest.Exchange{
		Request: request, RequestBody: []byte(body), Status: answer.StatusCode, Header: answer.Header, Body: response,
	})
	return answer.StatusCode, response
}

// get decodes the response to a GET request.
func get[T any](c *client, target string) (value T) {
	c.t.Helper()
	status, body := c.do(http.MethodGet, target, "")
	if err := json.Unmarshal(body, &value); err != nil || status != http.StatusOK {
		c.t.Fatalf("GET %s: %d %s", target, status, body)
	}
	return value
}
