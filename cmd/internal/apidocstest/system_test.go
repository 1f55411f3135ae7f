package apidocstest

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"opsgate/cmd/internal/devcmd"
	"opsgate/cmd/internal/logging/loggingtest"
	"opsgate/gateway/apidocs/samples"
)

// A system is a running opsdev.
type system struct {
	BaseURL string            `json:"baseUrl"`
	Tokens  map[string]string `json:"tokens"`
}

// start runs opsdev with a configuration until the end of the test.
func start(t *testing.T, configuration string) system {
	t.Helper()
	dir := t.TempDir()
	config, credentials := filepath.Join(dir, "opsgate.yaml"), filepath.Join(dir, "credentials.json")
	write(t, config, configuration)
	arguments := []string{"--listen=127.0.0.1:0", "--admin-listen=127.0.0.1:0", "--config=" + config, "--credentials=" + credentials}
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	exited := make(chan int, 1)
	var log loggingtest.Buffer
	go func() { exited <- devcmd.Run(ctx, arguments, devcmd.Environment{Out: io.Discard, Err: &log}) }()
	t.Cleanup(stop)
	limit, tick := time.After(3*time.Minute), time.NewTicker(10*time.Millisecond) // the demo data takes long under the race detector
	defer tick.Stop()
	for {
		select {
		case code := <-exited:
			t.Fatalf("opsdev ended with %d:\n%s", code, log.String())
		case <-limit:
			t.Fatalf("opsdev is not ready:\n%s", log.String())
		case <-tick.C:
		}
		content, err := os.ReadFile(credentials)
		if err != nil {
			continue
		}
		t.Cleanup(func() {
			stop()
			<-exited
		})
		var s system
		must(t, json.Unmarshal(content, &s))
		return s
	}
}

// call sends the request with a demo token.
func (s system) call(t *testing.T, r samples.Request, token string) (*http.Response, []byte) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), r.Method, s.BaseURL+strings.TrimPrefix(r.URL(), samples.BaseURL), strings.NewReader(r.Body))
	must(t, err)
	request.Header.Set("Authorization", "Bearer "+s.Tokens[token])
	if r.Idempotent() {
		request.Header.Set("Idempotency-Key", uuid.NewString())
		request.Header.Set("Content-Type", "application/json")
	}
	plain := http.Transport{DisableCompression: true} // the ETag of a compressed response is another
	defer plain.CloseIdleConnections()
	response, err := plain.RoundTrip(request)
	must(t, err)
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	must(t, err)
	return response, body
}

func write(t *testing.T, path, content string) {
	t.Helper()
	must(t, os.MkdirAll(filepath.Dir(path), 0o750))
	must(t, os.WriteFile(path, []byte(content), 0o600))
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
