package command_test

import (
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"opsgate/internal/testkit"
)

func TestAdminListenerHasMetricsOfDeliveries(t *testing.T) {
	// A parallel test may get a port of 0 after the end.
	s := serve(t, "--data-dir", t.TempDir(), "--admin-listen", testkit.FreeAddress(t))
	if status, body := fetch(t, s.admin+"/livez"); status != http.StatusOK || body != "ok\n" {
		t.Errorf("GET /livez: %d %q", status, body)
	}
	status, body := fetch(t, s.admin+"/metrics")
	for _, name := range []string{"opsbackend_dead_letters", "opsbackend_deliveries_waiting", "go_goroutines", "process_cpu_seconds_total"} {
		if !strings.Contains(body, "\n# TYPE "+name+" ") {
			t.Errorf("GET /metrics: %d without %s:\n%s", status, name, body)
		}
	}
	if code := s.stop(); code != 0 {
		t.Errorf("serve ended with %d", code)
	}
	if _, err := http.Get(s.admin + "/livez"); err == nil {
		t.Error("the listener is open after the end")
	}
}

// Browsers and load balancers open connections before they need them.
func TestStopWithAnUnusedConnection(t *testing.T) {
	testkit.SkipIfShort(t)
	s := serve(t, "--data-dir", t.TempDir(), "--admin-listen", "127.0.0.1:0")
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", strings.TrimPrefix(s.admin, "http://"))
	testkit.Must(t, err)
	defer conn.Close()
	_, _ = fetch(t, s.admin) // the server has accepted the connection before this one
	if code := s.stop(); code != 0 {
		t.Errorf("serve ended with %d", code)
	}
}

// A process that does not deliver has no metrics of deliveries, and leaves the lock to another.
func TestOnlyTheProcessThatServesIncidentsDelivers(t *testing.T) {
	for _, arguments := range [][]string{{"--no-delivery"}, {"--services", "fleet,identity"}} {
		s := serve(t, append(arguments, "--data-dir", t.TempDir(), "--admin-listen", "127.0.0.1:0")...)
		if status, body := fetch(t, s.admin+"/metrics"); status != http.StatusOK || strings.Contains(body, "opsbackend_deliveries") {
			t.Errorf("%v: %d with metrics of deliveries", arguments, status)
		}
		s.stop()
	}
}

func fetch(t *testing.T, url string) (status int, body string) {
	t.Helper()
	response, err := http.Get(url)
	testkit.Must(t, err)
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	testkit.Must(t, err)
	return response.StatusCode, string(content)
}
