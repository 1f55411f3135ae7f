package wiring_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"opsgate/backendclient"
	"opsgate/cmd/internal/gate/config"
	"opsgate/cmd/internal/gate/wiring"
	"opsgate/cmd/internal/test/servicestest"
	"opsgate/internal/buildinfo"
	"opsgate/internal/filereader"
	"opsgate/internal/testkit"
)

func TestMain(m *testing.M) {
	backendclient.DisableGRPCLog() // its lines about each connection hide failures
	testkit.VerifyTestMain(m)
}

// running is a running gateway with a client, a configuration file and a clock that tests change.
type running struct {
	*wiring.Gateway

	services *servicestest.Services
	token    string
	stop     context.CancelFunc
	ended    chan error
	http     *http.Transport

	base  string // part of every configuration
	file  string
	files filereader.Reader
	env   atomic.Pointer[[]string]
	log   testkit.Buffer
	ahead atomic.Int64 // of the wall clock, in nanoseconds
	loads atomic.Int64
}

// start runs a gateway as startWith does, with services of its own.
func start(t *testing.T, text string, variables ...string) *running {
	t.Helper()
	return startWith(t, servicestest.Start(t), text, variables...)
}

// startHolding runs a gateway as start does. Its fleet service does not answer before
// services.Release is closed.
func startHolding(t *testing.T, text string, variables ...string) *running {
	t.Helper()
	services := servicestest.Start(t)
	services.Release = make(chan struct{})
	return startWith(t, services, text, variables...)
}

// startWith runs a gateway with additional configuration and environment variables until the end of
// the test, which fails if Run returns an error that the test does not take.
func startWith(t *testing.T, services *servicestest.Services, text string, variables ...string) *running {
	t.Helper()
	r := &running{
		services: services, token: services.Token, file: filepath.Join(t.TempDir(), "opsgate.yaml"),
		base: fmt.Sprintf("listen: 127.0.0.1:0\nshutdown: {drain_wait: 0s}\nupstreams:\n"+
			"  fleet: &all {address: %q}\n  monitoring: *all\n  incident: *all\n  audit: *all\n  identity: *all\n", services.Address),
	}
	r.env.Store(&variables)
	r.write(t, text)
	loaded, err := r.load()
	testkit.Must(t, err)
	level := new(slog.LevelVar)
	r.run(t, wiring.Options{
		Loaded: loaded, Load: r.load, LogLevel: level, Clock: r.now,
		Logger: slog.New(slog.NewJSONHandler(&r.log, &slog.HandlerOptions{Level: level})),
	})
	return r
}

// run runs a gateway with the options.
func (r *running) run(t *testing.T, o wiring.Options) {
	t.Helper()
	o.Build = buildinfo.Info{Version: "1.2.3"}
	var err error
	r.Gateway, err = wiring.Listen(t.Context(), o)
	testkit.Must(t, err)
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	r.stop, r.ended, r.http = stop, make(chan error, 1), &http.Transport{}
	go func() {
		r.ended <- r.Run(ctx)
		close(r.ended)
	}()
	t.Cleanup(func() {
		r.finish(t)
		r.http.CloseIdleConnections()
	})
}

// end stops the gateway and returns the error of Run, at the first call.
func (r *running) end() error {
	r.stop()
	return <-r.ended
}

// finish stops the gateway, and fails the test if Run returns an error.
func (r *running) finish(t *testing.T) {
	t.Helper()
	testkit.Must(t, r.end())
}

func (r *running) now() time.Time { return time.Now().Add(time.Duration(r.ahead.Load())) }

func (r *running) load() (config.Loaded, error) {
	r.loads.Add(1)
	return config.Load(config.Options{
		Path: r.file, Environment: *r.env.Load(), Now: r.now, Reader: &r.files,
		Flags: []config.Setting{{Key: "admin.listen", Value: "127.0.0.1:0", From: "--admin-listen"}},
	})
}

// write replaces the file in one step.
func (r *running) write(t *testing.T, text string) {
	t.Helper()
	next := r.file + ".next"
	testkit.Must(t, os.WriteFile(next, []byte(r.base+text), 0o600))
	testkit.Must(t, os.Rename(next, r.file))
}

// reload replaces the file and reloads it.
func (r *running) reload(t *testing.T, text string) error {
	t.Helper()
	r.write(t, text)
	return r.Reload("test")
}

// send sends a GET request with a token, "" for none, and additional headers, each a name and a
// value.
func (r *running) send(address net.Addr, path, token string, headers ...string) (*http.Response, error) {
	request, err := http.NewRequest(http.MethodGet, "http://"+address.String()+path, http.NoBody)
	if err != nil {
		return nil, err
	}
	for i := 0; i < len(headers); i += 2 {
		request.Header.Set(headers[i], headers[i+1])
	}
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	return r.http.RoundTrip(request)
}

type response struct {
	status int
	header http.Header
	body   string
	close  bool
}

func (r *running) try(address net.Addr, path string, headers ...string) (response, error) {
	got, err := r.send(address, path, r.token, headers...)
	if err != nil {
		return response{}, err
	}
	defer func() { _ = got.Body.Close() }()
	body, err := io.ReadAll(got.Body)
	return response{got.StatusCode, got.Header, string(body), got.Close}, err
}

func (r *running) get(t *testing.T, address net.Addr, path string, headers ...string) response {
	t.Helper()
	got, err := r.try(address, path, headers...)
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

// getJSON decodes the response of the admin listener.
func getJSON[T any](t *testing.T, r *running, path string) (answer T) {
	t.Helper()
	got := r.get(t, r.AdminAddress(), path)
	decoder := json.NewDecoder(strings.NewReader(got.body))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&answer); got.status != 200 || err != nil {
		t.Fatalf("%s: %+v: %v", path, got, err)
	}
	return answer
}

// readiness requests the readiness page until its status is want.
func (r *running) readiness(t *testing.T, want string) (got response) {
	t.Helper()
	testkit.Eventually(t, "the gateway is "+want, func() bool {
		got = r.get(t, r.AdminAddress(), "/readyz")
		var body struct{ Status string }
		if err := json.Unmarshal([]byte(got.body), &body); err != nil {
			t.Fatalf("%q: %v", got.body, err)
		}
		return body.Status == want
	})
	return got
}

// limits returns a configuration of one limit per minute.
func limits(requests int) string {
	return fmt.Sprintf("rate_limit: {limits: [{requests: %d, per: 1m}]}\n", requests)
}

// requests returns the limit per minute in the headers of a response.
func requests(got response) int {
	var n int
	_, _ = fmt.Sscanf(got.header.Get("RateLimit-Policy"), `"minute";q=%d;w=60`, &n)
	return n
}

// mustAdmit fails the test unless a response has the limit per minute.
func (r *running) mustAdmit(t *testing.T, want int) {
	t.Helper()
	if got := r.get(t, r.Address(), "/v1/servers"); requests(got) != want {
		t.Errorf("got %+v, want %d a minute", got, want)
	}
}

// hold starts a request to a gateway of startHolding. It returns once the call has arrived; the
// channel gets the response.
func (r *running) hold() <-chan response {
	held := make(chan response, 1)
	go func() {
		got, err := r.try(r.Address(), "/v1/servers")
		if err != nil {
			got.body = err.Error()
		}
		held <- got
	}()
	<-r.services.Arrived
	return held
}

// lines returns the log lines with a message.
func (r *running) lines(message string) (list []map[string]any) {
	for text := range strings.Lines(r.log.String()) {
		var line map[string]any
		if json.Unmarshal([]byte(text), &line) == nil && line["msg"] == message {
			list = append(list, line)
		}
	}
	return list
}

// await waits for a log line with a message and returns it.
func (r *running) await(t *testing.T, message string) map[string]any {
	t.Helper()
	testkit.Eventually(t, "a line: "+message, func() bool { return len(r.lines(message)) > 0 })
	return r.lines(message)[0]
}

// metric returns the value of a series as text, or "" if there is none.
func (r *running) metric(t *testing.T, series string) string {
	t.Helper()
	for line := range strings.Lines(r.get(t, r.AdminAddress(), "/metrics").body) {
		if value, ok := strings.CutPrefix(line, series+" "); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

func (r *running) mustHaveMetric(t *testing.T, series, want string) {
	t.Helper()
	if got := r.metric(t, series); got != want {
		t.Errorf("%s is %q, want %s", series, got, want)
	}
}

// A client is one connection to a listener.
type client struct {
	net.Conn
	*bufio.Reader
}

func (r *running) connect(t *testing.T) *client {
	t.Helper()
	return connect(t, r.Address())
}

func connect(t *testing.T, address net.Addr) *client {
	t.Helper()
	conn, err := net.Dial("tcp", address.String())
	testkit.Must(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	testkit.Must(t, conn.SetDeadline(time.Now().Add(testkit.MaxWait)))
	return &client{conn, bufio.NewReader(conn)}
}

// ask sends bytes, and returns the response and its body.
func (c *client) ask(t *testing.T, send string) (got *http.Response, body string) {
	t.Helper()
	_, err := io.WriteString(c.Conn, send)
	testkit.Must(t, err)
	got, err = http.ReadResponse(c.Reader, nil)
	testkit.Must(t, err)
	text, err := io.ReadAll(got.Body)
	testkit.Must(t, err)
	return got, string(text)
}

// do sends a request with additional headers, and returns the status of the response.
func (c *client) do(t *testing.T, more string) int {
	t.Helper()
	got, _ := c.ask(t, "GET /v1/me HTTP/1.1\r\nHost: h\r\n"+more+"\r\n")
	return got.StatusCode
}
