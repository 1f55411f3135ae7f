package docs

import (
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/uuid"

	"opsgate/cmd/internal/test/devtest"
	"opsgate/gateway/apidocs/samples"
	"opsgate/gateway/openapi"
	"opsgate/internal/testkit"
)

// A system is a running opsdev.
type system struct{ *devtest.System }

// start runs opsdev with a configuration until the end of the test.
func start(t *testing.T, configuration string, arguments ...string) system {
	t.Helper()
	return system{devtest.Start(t, configuration, arguments...)}
}

// call sends the request with a demo token.
func (s system) call(t *testing.T, r samples.Request, token string) (*http.Response, []byte) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), r.Method, s.BaseURL+strings.TrimPrefix(r.URL(), openapi.PlaceholderURL), strings.NewReader(r.Body))
	testkit.Must(t, err)
	request.Header.Set("Authorization", "Bearer "+s.Tokens[token])
	if r.Idempotent() {
		request.Header.Set("Idempotency-Key", uuid.NewString())
		request.Header.Set("Content-Type", "application/json")
	}
	plain := http.Transport{DisableCompression: true} // the ETag of a compressed response is another
	defer plain.CloseIdleConnections()
	response, err := plain.RoundTrip(request)
	testkit.Must(t, err)
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	testkit.Must(t, err)
	return response, body
}

// send returns the body of a successful response to a demo token.
func (s system) send(t *testing.T, method, token, path, body string) []byte {
	t.Helper()
	path, query, _ := strings.Cut(path, "?")
	response, text := s.call(t, samples.Request{Method: method, Path: path, Query: query, Body: body}, token)
	if response.StatusCode != http.StatusOK {
		t.Fatalf("%s %s: %d %s", method, path, response.StatusCode, text)
	}
	return text
}

// metrics returns the page of metrics of the gateway.
func (s system) metrics(t *testing.T) string {
	t.Helper()
	response, err := http.Get(s.AdminURL + "/metrics")
	testkit.Must(t, err)
	defer func() { _ = response.Body.Close() }()
	page, err := io.ReadAll(response.Body)
	testkit.Must(t, err)
	return string(page)
}

func decode(t *testing.T, text []byte, value any) {
	t.Helper()
	if err := json.Unmarshal(text, value); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
}

func write(t *testing.T, path, content string) {
	t.Helper()
	testkit.Must(t, os.MkdirAll(filepath.Dir(path), 0o750))
	testkit.Must(t, os.WriteFile(path, []byte(content), 0o600))
}
