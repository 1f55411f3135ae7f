package wiring_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"opsgate/backendclient"
	"opsgate/backendclient/testkit"
	"opsgate/cmd/internal/gate/config"
	"opsgate/cmd/internal/gate/wiring"
	"opsgate/cmd/internal/kit/buildinfo"
	"opsgate/cmd/internal/test/servicestest"
)

func TestMain(m *testing.M) {
	backendclient.DisableGRPCLog() // its lines about each connection hide failures
	testkit.VerifyTestMain(m)
}

// settings returns the configuration of a gateway whose services are all at the address.
func settings(address string) config.Config {
	c := config.Default()
	c.Listen, c.Admin.Listen = "127.0.0.1:0", "127.0.0.1:0"
	upstream := config.Upstream{Address: address}
	c.Upstreams = config.Upstreams{Fleet: upstream, Monitoring: upstream, Incident: upstream, Audit: upstream, Identity: upstream}
	c.Shutdown = config.Shutdown{Grace: config.Duration(10 * time.Second)}
	return c
}

// running is a running gateway with a client.
type running struct {
	*wiring.Gateway

	token string
	stop  context.CancelFunc
	ended chan error
	http  *http.Transport
}

func listen(t *testing.T, c config.Config) (*wiring.Gateway, error) {
	t.Helper()
	return listenLoaded(t, config.Loaded{Config: c})
}

func listenLoaded(t *testing.T, loaded config.Loaded) (*wiring.Gateway, error) {
	t.Helper()
	return wiring.Listen(t.Context(), wiring.Options{
		Loaded: loaded, Logger: slog.New(slog.DiscardHandler), Build: buildinfo.Info{Version: "1.2.3"},
	})
}

func run(t *testing.T, c config.Config, token string) *running {
	t.Helper()
	e, err := listen(t, c)
	testkit.Must(t, err)
	return runEdge(t, e, token)
}

func runEdge(t *testing.T, e *wiring.Gateway, token string) *running {
	t.Helper()
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	r := &running{Gateway: e, token: token, stop: stop, ended: make(chan error, 1), http: &http.Transport{}}
	go func() { r.ended <- e.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		r.http.CloseIdleConnections()
	})
	return r
}

// end stops the gateway and returns the error of Run, each time.
func (r *running) end() error {
	r.stop()
	err := <-r.ended
	r.ended <- err
	return err
}

type response struct {
	status int
	header http.Header
	body   string
	close  bool
}

func (r *running) get(t *testing.T, address net.Addr, path string) response {
	t.Helper()
	got, err := r.try(address, path)
	testkit.Must(t, err)
	return got
}

// mustGet sends a request to the public listener, and checks the status of the response.
func (r *running) mustGet(t *testing.T, path string, status int) {
	t.Helper()
	if got := r.get(t, r.Address(), path); got.status != status {
		t.Errorf("%s: got %+v, want %d", path, got, status)
	}
}

func (r *running) try(address net.Addr, path string) (response, error) {
	request, err := http.NewRequest(http.MethodGet, "http://"+address.String()+path, http.NoBody)
	if err != nil {
		return response{}, err
	}
	request.Header.Set("Authorization", "Bearer "+r.token)
	got, err := r.http.RoundTrip(request)
	if err != nil {
		return response{}, err
	}
	defer func() { _ = got.Body.Close() }()
	body, err := io.ReadAll(got.Body)
	return response{got.StatusCode, got.Header, string(body), got.Close}, err
}

// readiness requests the readiness page until its status is want.
func (r *running) readiness(t *testing.T, want string) response {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		got := r.get(t, r.AdminAddress(), "/readyz")
		var body struct{ Status string }
		if err := json.Unmarshal([]byte(got.body), &body); err != nil {
			t.Fatalf("%q: %v", got.body, err)
		}
		if body.Status == want {
			return got
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("got %s, want %s", got.body, want)
		}
	}
}

func TestListenOnAnAddressInUseReleasesResources(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	testkit.Must(t, err)
	defer func() { _ = taken.Close() }()
	for _, which := range []string{"public", "admin"} {
		c := settings("127.0.0.1:1")
		if which == "public" {
			c.Listen = taken.Addr().String()
		} else {
			c.Admin.Listen = taken.Addr().String()
		}
		if _, err := listen(t, c); err == nil || !strings.Contains(err.Error(), "bind the "+which+" listener") {
			t.Errorf("got %v", err)
		}
	}
}

func TestListenRefusesInvalidConfigurations(t *testing.T) {
	for name, spoil := range map[string]func(*config.Config){
		"a missing address":       func(c *config.Config) { c.Upstreams.Audit.Address = "" },
		"an invalid token prefix": func(c *config.Config) { c.TokenPrefix = "no blanks" },
		"no limits":               func(c *config.Config) { c.RateLimit.Limits = nil },
	} {
		c := settings("127.0.0.1:1")
		spoil(&c)
		if _, err := listen(t, c); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestHeaderSizeLimit(t *testing.T) {
	services := servicestest.Start(t)
	r := reloadingGateway(t, services, "http: {max_header_bytes: 4KiB}\n")
	padded := func(n int) string { // a request whose line and header are n bytes
		const request = "GET /elsewhere HTTP/1.1\r\nHost: h\r\nConnection: close\r\nX: \r\n\r\n"
		return strings.Replace(request, "X: ", "X: "+strings.Repeat("x", n-len(request)), 1)
	}
	for _, test := range []struct{ name, send, want string }{
		{"a header of the maximum size", padded(4 << 10), "HTTP/1.1 404 "},
		{"a larger header", padded(4<<10 + 1), "HTTP/1.1 431 "},
		{"a header of twice the size", padded(8 << 10), "HTTP/1.1 431 "},
		{"a header of four times the size", padded(16 << 10), "HTTP/1.1 431 "},
		{"OPTIONS *", "OPTIONS * HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n", "HTTP/1.1 404 "},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := exchange(t, r.Address(), test.send); !strings.HasPrefix(got, test.want) {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
	refused := `opsgate_http_requests_total{cause="input:header",code="headers_too_large",route="unmatched",status="431"}`
	r.mustHaveMetric(t, refused, "2") // by the gateway itself
}

// exchange sends bytes and returns the first line of the response, or "" if there is none.
func exchange(t *testing.T, address net.Addr, send string) string {
	t.Helper()
	conn, err := net.Dial("tcp", address.String())
	testkit.Must(t, err)
	defer func() { _ = conn.Close() }()
	testkit.Must(t, conn.SetDeadline(time.Now().Add(10*time.Second)))
	if _, err := io.WriteString(conn, send); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(conn).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		t.Fatalf("after %q: %v", line, err)
	}
	return line
}
