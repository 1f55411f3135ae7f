package docs

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/uuid"

	"opsgate/backendclient/testkit"
	"opsgate/cmd/internal/test/devtest"
	"opsgate/gateway/apidocs/samples"
	"opsgate/gateway/baseurl"
)

// A system is a running opsdev.
type system struct{ *devtest.System }

// start runs opsdev with a configuration until the end of the test.
func start(t *testing.T, configuration string) system {
	t.Helper()
	return system{devtest.Start(t, configuration)}
}

// call sends the request with a demo token.
func (s system) call(t *testing.T, r samples.Request, token string) (*http.Response, []byte) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), r.Method, s.BaseURL+strings.TrimPrefix(r.URL(), baseurl.Placeholder), strings.NewReader(r.Body))
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

func write(t *testing.T, path, content string) {
	t.Helper()
	testkit.Must(t, os.MkdirAll(filepath.Dir(path), 0o750))
	testkit.Must(t, os.WriteFile(path, []byte(content), 0o600))
}
