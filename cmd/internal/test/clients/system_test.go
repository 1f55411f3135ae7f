package clients

import (
	"context"
	"encoding/json"
	"flag"
	"io"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"testing"

	"opsgate/cmd/internal/test/devtest"
	"opsgate/internal/testkit"
)

func TestMain(m *testing.M) {
	// Clients wait most of the time, so that all can run at once.
	flag.Parse()
	if err := flag.Set("test.parallel", strconv.Itoa(len(clients))); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

// A system is a running opsdev.
type system struct{ *devtest.System }

func start(t *testing.T, configuration string, arguments ...string) system {
	t.Helper()
	return system{devtest.Start(t, configuration, arguments...)}
}

// get returns the body of a successful response.
func get(t *testing.T, url, token string) []byte {
	t.Helper()
	request, err := http.NewRequestWithContext(context.Background(), http.MethodGet, url, http.NoBody)
	testkit.Must(t, err)
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	response, err := http.DefaultClient.Do(request)
	testkit.Must(t, err)
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		t.Fatalf("GET %s: %s, %v\n%s", url, response.Status, err, body)
	}
	return body
}

// read decodes the response to a path of the API.
func read[T any](t *testing.T, s system, path string) (v T) {
	t.Helper()
	decode(t, get(t, s.BaseURL+path, s.Tokens["full"]), &v)
	return v
}

func decode(t *testing.T, data []byte, v any) {
	t.Helper()
	if err := json.Unmarshal(data, v); err != nil {
		t.Fatalf("%v:\n%s", err, data)
	}
}

// called returns the operations that succeeded, from the metrics of the gateway.
func (s system) called(t *testing.T) map[string]bool {
	t.Helper()
	found := map[string]bool{}
	series := regexp.MustCompile(`(?m)^opsgate_http_requests_total\{.*route="(\w+)",status="200"\}`)
	for _, match := range series.FindAllSubmatch(get(t, s.AdminURL+"/metrics", ""), -1) {
		found[string(match[1])] = true
	}
	return found
}

// limitedReads returns a configuration with limits for the token "read", whose id is the same in
// each system.
func (s system) limitedReads(t *testing.T, limits string) string {
	t.Helper()
	var me struct{ TokenID string }
	decode(t, get(t, s.BaseURL+"/v1/me", s.Tokens["read"]), &me)
	return "rate_limit: {limits: [{requests: 1000000, per: 1s}], tokens: {" + me.TokenID + ": {limits: [" + limits + "]}}}\n"
}
