package redistest

import (
	"context"
	"fmt"
	"net"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"opsgate/internal/testkit"
)

const (
	host    = "127.0.0.1"
	timeout = time.Minute
)

// A Server is a redis-server. Its methods fail the test on errors.
type Server struct {
	t      testing.TB
	binary string
	port   int
	dir    string
	args   []string
	client *redis.Client

	process *testkit.Process // nil when killed
	output  *testkit.Buffer  // of process
}

// Start runs a server with further arguments: "--requirepass", "secret".
func Start(t testing.TB, args ...string) *Server {
	t.Helper()
	s := newServer(t)
	s.args = append([]string{
		"--port", strconv.Itoa(s.port), "--bind", host, "--dir", s.dir, "--save", "", "--appendonly", "no", "--loglevel",
		"warning",
	}, args...)
	s.Restart()
	return s
}

func newServer(t testing.TB) *Server {
	t.Helper()
	// removed after Kill
	s := &Server{t: t, binary: testkit.Find(t, "redis-server"), port: testkit.FreePort(t), dir: t.TempDir()}
	t.Cleanup(s.Kill)
	return s
}

// Addr returns the address of the server.
func (s *Server) Addr() string { return net.JoinHostPort(host, strconv.Itoa(s.port)) }

// Restart runs the server on the same port, empty, and kills a running one before.
func (s *Server) Restart() {
	s.t.Helper()
	s.Kill()
	s.output = new(testkit.Buffer)
	command := exec.Command(s.binary, s.args...)
	command.Stdout = s.output
	var err error
	s.process, err = testkit.Launch(command)
	testkit.Must(s.t, err)
	s.await("redis-server listens", s.listens)
}

// listens reports whether the server accepts connections. It sends no command, as the server may
// require a password or TLS.
func (s *Server) listens(ctx context.Context) bool {
	select {
	case <-s.process.Exited:
		s.t.Fatalf("redis-server ended:\n%s%s", s.output, &s.process.Log)
	default:
	}
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", s.Addr())
	if err != nil {
		return false
	}
	_ = conn.Close()
	return true
}

// await waits for a condition to hold.
func (s *Server) await(what string, holds func(context.Context) bool) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), testkit.MaxWait)
	defer cancel()
	testkit.Eventually(s.t, what, func() bool { return holds(ctx) })
}

// Kill ends the server as a crash does. It does nothing if the server is not running.
func (s *Server) Kill() {
	if s.process == nil {
		return
	}
	s.process.Kill()
	s.process = nil
}

// Pause stops the process: connections stay open, and calls hang.
func (s *Server) Pause() { s.signal(syscall.SIGSTOP) }

// Resume continues a paused server.
func (s *Server) Resume() { s.signal(syscall.SIGCONT) }

func (s *Server) signal(signal syscall.Signal) {
	s.t.Helper()
	if s.process == nil {
		s.t.Fatal("redis-server is not running")
	}
	s.process.Signal(s.t, signal)
}

// CPUTime returns the processor time of the server.
func (s *Server) CPUTime() (total time.Duration) {
	s.t.Helper()
	info, err := s.Client().Info(context.Background(), "cpu").Result()
	testkit.Must(s.t, err)
	for line := range strings.Lines(info) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		if name == "used_cpu_sys" || name == "used_cpu_user" {
			used, err := time.ParseDuration(value + "s")
			testkit.Must(s.t, err)
			total += used
		}
	}
	return total
}

// Flush empties the server.
func (s *Server) Flush() {
	s.t.Helper()
	testkit.Must(s.t, s.Client().FlushAll(context.Background()).Err())
}

// Client returns a client with long timeouts, without password or TLS. It is closed with the test.
func (s *Server) Client() *redis.Client {
	if s.client == nil {
		s.client = redis.NewClient(&redis.Options{
			Addr: s.Addr(), DialTimeout: timeout, ReadTimeout: timeout, DisableIdentity: true, MaxRetries: -1,
			MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
		})
		s.t.Cleanup(func() { _ = s.client.Close() })
	}
	return s.client
}

func (s *Server) do(ctx context.Context, args ...any) {
	s.t.Helper()
	if err := s.Client().Do(ctx, args...).Err(); err != nil {
		s.t.Fatal(fmt.Errorf("%v: %w", args, err))
	}
}
