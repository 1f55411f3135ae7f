package systemd_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"opsgate/internal/testkit"
)

const maxWait = testkit.MaxWait

// program is the path of the built gateway.
var program string

func TestMain(m *testing.M) {
	os.Exit(testkit.Run(func(dir string) int {
		program = filepath.Join(dir, "opsgate")
		return m.Run()
	}, "opsgate"))
}

// socket opens a listening socket as systemd does: this process holds it, whatever a gateway does
// with its copy.
func socket(t *testing.T) (file *os.File, address string) {
	t.Helper()
	opened, err := net.Listen("tcp", "127.0.0.1:0")
	testkit.Must(t, err)
	tcp, _ := opened.(*net.TCPListener)
	if file, err = tcp.File(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = file.Close() })
	testkit.Must(t, tcp.Close())
	return file, tcp.Addr().String()
}

// configuration writes a configuration of a gateway that listens on the address.
func configuration(t *testing.T, address string) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "opsgate.yaml")
	text := "listen: " + address + `
admin: {listen: 127.0.0.1:0}
upstreams:
  fleet: &away {address: 127.0.0.1:1}
  monitoring: *away
  incident: *away
  audit: *away
  identity: *away
shutdown: {drain_wait: 0s}
`
	testkit.Must(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// start starts a gateway with the sockets and their names, as systemd does. LISTEN_PID must be the
// process of the gateway.
func start(path, names string, sockets ...*os.File) (*testkit.Process, error) {
	command := exec.Command("sh", "-c", `export LISTEN_PID=$$ && exec "$0" serve --config "$1"`, program, path)
	command.Env = append(os.Environ(), "LISTEN_FDS="+strconv.Itoa(len(sockets)), "LISTEN_FDNAMES="+names)
	command.ExtraFiles = sockets
	return testkit.Launch(command)
}

// get requests a page over a new connection.
func get(ctx context.Context, address string) error {
	ctx, cancel := context.WithTimeout(ctx, maxWait)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/openapi.json", http.NoBody)
	if err != nil {
		return err
	}
	answer, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(request)
	if err != nil {
		return err
	}
	defer func() { _ = answer.Body.Close() }()
	if _, err := io.Copy(io.Discard, answer.Body); err != nil {
		return err
	}
	if answer.StatusCode != http.StatusOK {
		return errors.New(answer.Status)
	}
	return nil
}

// restart ends a gateway that serves, and starts another one on the same socket. A connection that
// a client opens while there is none is served.
func restart(ctx context.Context, old *testkit.Process, path, address string, socket *os.File) (*testkit.Process, error) {
	if err := get(ctx, address); err != nil {
		return nil, err
	}
	if err := old.Stop(); err != nil {
		return nil, fmt.Errorf("stop: %w\n%s", err, &old.Log)
	}
	var dialer net.Dialer
	waiting, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("connect without a gateway: %w", err)
	}
	defer func() { _ = waiting.Close() }()
	if _, err := io.WriteString(waiting, "GET /openapi.json HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"); err != nil {
		return nil, err
	}
	next, err := start(path, "public", socket)
	if err != nil {
		return nil, err
	}
	if err := waiting.SetReadDeadline(time.Now().Add(maxWait)); err != nil {
		return next, err
	}
	answer, err := io.ReadAll(waiting)
	if err == nil && !bytes.HasPrefix(answer, []byte("HTTP/1.1 200 ")) {
		err = fmt.Errorf("answered %.100q", answer)
	}
	return next, err
}

func TestRestartUnderLoadRefusesNoConnection(t *testing.T) {
	const workers, restarts = 4, 3
	passed, address := socket(t)
	path := configuration(t, address)
	gateway, err := start(path, "public", passed)
	testkit.Must(t, err)
	defer func() {
		if err := gateway.Stop(); err != nil {
			t.Errorf("%v\n%s", err, &gateway.Log)
		}
	}()

	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	results, restarted := make(chan error), make(chan error, 1)
	for range workers {
		go func() {
			for ctx.Err() == nil {
				err := get(context.WithoutCancel(ctx), address)
				select {
				case results <- err:
				case <-ctx.Done():
				}
			}
		}()
	}
	go func() {
		var err error
		for i := 0; i < restarts && err == nil; i++ {
			var next *testkit.Process
			if next, err = restart(ctx, gateway, path, address, passed); next != nil {
				gateway = next
			}
		}
		restarted <- err
	}()
	for served := 0; ; served++ {
		select {
		case err := <-results:
			if err != nil {
				t.Errorf("a request failed: %v", err)
			}
		case err := <-restarted:
			if err != nil {
				t.Error(err)
			}
			t.Logf("%d requests during %d restarts", served, restarts)
			if served < workers*restarts {
				t.Errorf("only %d requests were served", served)
			}
			return
		}
	}
}

func TestOtherSocketsEndTheStart(t *testing.T) {
	tcp, address := socket(t)
	unix, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(t.TempDir(), "socket"), Net: "unix"})
	testkit.Must(t, err)
	defer func() { _ = unix.Close() }()
	local, err := unix.File()
	testkit.Must(t, err)
	defer func() { _ = local.Close() }()
	plain, err := os.Create(filepath.Join(t.TempDir(), "file"))
	testkit.Must(t, err)
	defer func() { _ = plain.Close() }()
	for _, test := range []struct {
		name, listen, names string
		sockets             []*os.File
		want                string
	}{
		{"another address", "127.0.0.1:1", "public", []*os.File{tcp}, "the socket from systemd is on " + address},
		{"another name", address, "opsgate.socket", []*os.File{tcp}, `systemd passed sockets named ["opsgate.socket"]`},
		{"two", address, "public:public", []*os.File{tcp, tcp}, `systemd passed sockets named ["public" "public"]`},
		{"a Unix socket", address, "public", []*os.File{local}, "is not a TCP socket"},
		{"no socket", address, "public", []*os.File{plain}, "use the socket that systemd passed"},
	} {
		t.Run(test.name, func(t *testing.T) {
			p, err := start(configuration(t, test.listen), test.names, test.sockets...)
			testkit.Must(t, err)
			err = p.Wait()
			var exit *exec.ExitError
			if log := p.Log.String(); !errors.As(err, &exit) || exit.ExitCode() != 1 || !strings.Contains(log, test.want) {
				t.Errorf("got %v, want %q in\n%s", err, test.want, log)
			}
		})
	}
}

// A process that systemd did not start may inherit the variables. Then the sockets are not its own,
// and it binds its address itself.
func TestVariablesOfAnotherProcessAreIgnored(t *testing.T) {
	address := testkit.FreeAddress(t)
	command := exec.Command(program, "serve", "--config", configuration(t, address))
	command.Env = append(os.Environ(), "LISTEN_FDS=1", "LISTEN_FDNAMES=other", "LISTEN_PID="+strconv.Itoa(os.Getpid()))
	testkit.Start(t, command)
	testkit.Eventually(t, "the gateway serves", func() bool { return get(t.Context(), address) == nil })
}
