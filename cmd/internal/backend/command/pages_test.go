package command_test

import (
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"opsgate/backendclient/testkit"
)

func TestAdminListenerHasMetricsOfDeliveries(t *testing.T) {
	s := serve(t, "--data-dir", t.TempDir(), "--admin-listen", "127.0.0.1:0")
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

func TestLinksOfEmailsAreServed(t *testing.T) {
	dir := seeded(t)
	hostname, _ := page(t, dir)
	s := serve(t, "--data-dir", dir, "--links-listen", "127.0.0.1:0")
	succeed(t, "subscriber", "add", "--data-dir", dir, "--page", hostname, "--email", "ops@customer.example")
	var token string
	testkit.Must(t, database(t, dir).QueryRow("SELECT link_token FROM subscribers WHERE address = 'ops@customer.example'").Scan(&token))
	link := s.links + "/subscriptions/" + token + "/confirm"
	if status, _ := fetch(t, link); status != http.StatusOK {
		t.Errorf("GET of a link: %d", status)
	}
	response, err := http.PostForm(link, nil)
	testkit.Must(t, err)
	testkit.Must(t, response.Body.Close())
	var confirmed bool
	testkit.Must(t, database(t, dir).QueryRow("SELECT confirmed_at IS NOT NULL FROM subscribers WHERE link_token = ?", token).Scan(&confirmed))
	if !confirmed {
		t.Errorf("POST of a link: %d, and the subscriber is not confirmed", response.StatusCode)
	}
}

// The client of a trusted proxy is that of X-Forwarded-For, and that of any other peer is the peer.
func TestTrustedProxiesOfTheLinks(t *testing.T) {
	for flag, want := range map[string]string{"127.0.0.0/8,10.0.0.0/8": "203.0.113.7", "10.0.0.0/8": "127.0.0.1"} {
		dir := seeded(t)
		hostname, _ := page(t, dir)
		s := serve(t, "--data-dir", dir, "--links-listen", "127.0.0.1:0", "--links-trusted-proxies", flag)
		succeed(t, "subscriber", "add", "--data-dir", dir, "--page", hostname, "--email", "ops@customer.example")
		var token string
		testkit.Must(t, database(t, dir).QueryRow("SELECT link_token FROM subscribers WHERE address = 'ops@customer.example'").Scan(&token))
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.links+"/subscriptions/"+token+"/confirm", nil)
		testkit.Must(t, err)
		request.Header.Set("X-Forwarded-For", "203.0.113.7")
		response, err := http.DefaultClient.Do(request)
		testkit.Must(t, err)
		testkit.Must(t, response.Body.Close())
		var address string
		testkit.Must(t, database(t, dir).QueryRow("SELECT ip_address FROM audit_entries WHERE action_type = 'subscriber.confirmed'").Scan(&address))
		if address != want {
			t.Errorf("%s: the audit log has %s, want %s", flag, address, want)
		}
		s.stop()
	}
}

// Browsers and load balancers open connections before they need them.
func TestStopWithAnUnusedConnection(t *testing.T) {
	if testing.Short() {
		t.Skip("takes five seconds")
	}
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
