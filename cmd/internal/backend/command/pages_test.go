package command_test

import (
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"opsgate/backendclient/testkit"
	"opsgate/cmd/internal/backend/store/storetest"
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

// confirmation adds a subscriber, and returns the link to confirm it.
func (s *server) confirmation(dir string) (link string) {
	s.t.Helper()
	hostname, _ := page(s.t, dir)
	succeed(s.t, "subscriber", "add", "--data-dir", dir, "--page", hostname, "--email", "ops@customer.example")
	const token = "SELECT link_token FROM subscribers WHERE address = 'ops@customer.example'"
	return s.links + "/subscriptions/" + storetest.Column[string](s.t, database(s.t, dir), token)[0] + "/confirm"
}

func TestLinksOfEmailsAreServed(t *testing.T) {
	dir := seeded(t)
	s := serve(t, "--data-dir", dir, "--links-listen", "127.0.0.1:0")
	link := s.confirmation(dir)
	if status, _ := fetch(t, link); status != http.StatusOK {
		t.Errorf("GET of a link: %d", status)
	}
	response, err := http.PostForm(link, nil)
	testkit.Must(t, err)
	testkit.Must(t, response.Body.Close())
	if storetest.Count(t, database(t, dir), "subscribers WHERE confirmed_at IS NOT NULL") != 1 {
		t.Errorf("POST of a link: %d, and the subscriber is not confirmed", response.StatusCode)
	}
}

// The client of a trusted proxy is that of X-Forwarded-For, and that of any other peer is the peer.
func TestTrustedProxiesOfTheLinks(t *testing.T) {
	for flag, want := range map[string]string{"127.0.0.0/8,10.0.0.0/8": "203.0.113.7", "10.0.0.0/8": "127.0.0.1"} {
		dir := seeded(t)
		s := serve(t, "--data-dir", dir, "--links-listen", "127.0.0.1:0", "--links-trusted-proxies", flag)
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.confirmation(dir), nil)
		testkit.Must(t, err)
		request.Header.Set("X-Forwarded-For", "203.0.113.7")
		response, err := http.DefaultClient.Do(request)
		testkit.Must(t, err)
		testkit.Must(t, response.Body.Close())
		const confirmed = "SELECT ip_address FROM audit_entries WHERE action_type = 'subscriber.confirmed'"
		if got := storetest.Column[string](t, database(t, dir), confirmed); got[0] != want {
			t.Errorf("%s: the audit log has %s, want %s", flag, got, want)
		}
		s.stop()
	}
}

// Browsers and load balancers open connections before they need them.
func TestStopWithAnUnusedConnection(t *testing.T) {
	testkit.SkipIfShort(t)
	s := serve(t, "--data-dir", t.TempDir(), "--links-listen", "127.0.0.1:0")
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", strings.TrimPrefix(s.links, "http://"))
	testkit.Must(t, err)
	defer conn.Close()
	_, _ = fetch(t, s.links) // the server has accepted the connection before this one
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
