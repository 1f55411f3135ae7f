package command_test

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"opsgate/backendclient/testkit"
	"opsgate/cmd/internal/test/devtest"
)

// The client does not wait as told, has a new key for each try, and reads first pages only. The tests of opsctl rehearse a correct one.
func TestRehearsalFailsACarelessClient(t *testing.T) {
	t.Parallel()
	junit := filepath.Join(t.TempDir(), "junit.xml")
	s := start(t, "--rehearse", "--seed=7", "--config="+write(t, devtest.HighLimits), "--junit="+junit)
	const incident = `{"title": "Rehearsed", "status": "resolved", "impact": "none", "message": "It is a test."}`
	for i := range 30 {
		for _, each := range [][3]string{{"GET", "/v1/me", ""}, {"GET", "/v1/audit?limit=100", ""}, {"POST", "/v1/incidents", incident}} {
			request, err := http.NewRequestWithContext(t.Context(), each[0], s.BaseURL+each[1], strings.NewReader(each[2]))
			testkit.Must(t, err)
			request.Header.Set("Authorization", "Bearer "+s.Tokens["full"])
			request.Header.Set("Idempotency-Key", fmt.Sprint("key-", i))
			if response, err := s.http.RoundTrip(request); err == nil {
				_, _ = io.Copy(io.Discard, response.Body)
				_ = response.Body.Close()
			}
		}
	}
	if code := s.Stop(); code != 1 || !strings.Contains(s.Log.String(), "the client failed ") {
		t.Errorf("exit code %d\n%s", code, s.Log.String())
	}
	for _, name := range []string{"waits", "same-key", "pages"} {
		if !regexp.MustCompile(`(?m)^failed +` + name + "  ").MatchString(s.Out.String()) {
			t.Errorf("%s is not failed:\n%s", name, s.Out.String())
		}
	}
	if text, err := os.ReadFile(junit); err != nil || !strings.Contains(string(text), `name="same-key"><failure>`) {
		t.Errorf("the JUnit report: %v\n%s", err, text)
	}
}
