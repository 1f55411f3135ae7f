package redistest

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

const (
	host     = "127.0.0.1"
	patience = time.Minute
	tick     = 5 * time.Millisecond
)

// A Server is a running redis-server. Its methods fail the test where they cannot do what they say.
type Server struct {
	t      testing.TB
	binary string
	port   int
	dir    string
	args   []string
	client *redis.Client

	process *process // nil when killed
}

// A process is a child that ends with the thread that started it, and that thread with the child.
type process struct {
	*os.Process
	ended  chan struct{}
	output *bytes.Buffer // to be read when it has ended
}

// Start runs a server, with further arguments if there are any: "--requirepass", "secret".
func Start(t testing.TB, args ...string) *Server {
	t.Helper()
	s := newServer(t)
	s.args = append([]string{
		"--port", strconv.Itoa(s.port), "--bind", host, "--dir", s.dir, "--save", "", "--appendonly", "no", "--loglevel", "warning",
	}, args...)
	s.Restart()
	return s
}

func newServer(t testing.TB) *Server {
	t.Helper()
	s := &Server{t: t, binary: find(t), port: FreePort(t), dir: t.TempDir()} // which goes after the server
	t.Cleanup(s.Kill)
	return s
}

// find returns the path of redis-server, or skips the test.
func find(t testing.TB) string {
	t.Helper()
	binary, err := exec.LookPath("redis-server")
	switch {
	case err == nil:
	case os.Getenv("CI") != "":
		t.Fatalf("redis-server is needed: %v", err)
	default:
		t.Skip("redis-server is not installed")
	}
	return binary
}

// FreePort returns a port of the loopback interface that nobody listened on a moment ago. It is below those that systems give to who asks
// for any, as other tests do all the time: one of them could have it before the server that it is meant for, or while that one is away.
func FreePort(t testing.TB) int {
	t.Helper()
	const lowest, beyond = 10_000, 30_000
	var err error
	for range 100 {
		port := lowest + rand.N(beyond-lowest)
		var l net.Listener
		if l, err = new(net.ListenConfig).Listen(t.Context(), "tcp", net.JoinHostPort(host, strconv.Itoa(port))); err == nil {
			_ = l.Close()
			return port
		}
	}
	t.Fatalf("there is no free port: %v", err)
	return 0
}

// Addr is where the server listens, host and port.
func (s *Server) Addr() string { return net.JoinHostPort(host, strconv.Itoa(s.port)) }

// Restart runs the server on the same port with nothing in it, after killing the one that may be running.
func (s *Server) Restart() {
	s.t.Helper()
	s.Kill()
	p, err := start(exec.Command(s.binary, s.args...))
	if err != nil {
		s.t.Fatalf("starting redis-server: %v", err)
	}
	s.process = p
	s.await("redis-server listens", s.listens)
}

// start runs the command from a thread of its own: the kernel kills the child when the thread that started it ends, which is how
// a test that is killed leaves no server behind.
func start(cmd *exec.Cmd) (*process, error) {
	p := &process{ended: make(chan struct{}), output: new(bytes.Buffer)}
	cmd.Stdout, cmd.Stderr = p.output, p.output
	cmd.SysProcAttr = endsWithParent()
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer close(p.ended)
		err := cmd.Start()
		p.Process = cmd.Process
		started <- err
		if err == nil {
			_ = cmd.Wait() // it is killed, always
		}
	}()
	return p, <-started
}

// listens says whether the server takes connections. Whether it answers commands, its arguments decide.
func (s *Server) listens(ctx context.Context) bool {
	select {
	case <-s.process.ended:
		s.t.Fatalf("redis-server ended:\n%s", s.process.output)
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
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	again := time.NewTicker(tick)
	defer again.Stop()
	for !holds(ctx) {
		select {
		case <-ctx.Done():
			s.t.Fatalf("it took too long that %s", what)
		case <-again.C:
		}
	}
}

// Kill ends the server as a crash does. It may be called of one that was killed.
func (s *Server) Kill() {
	if s.process == nil {
		return
	}
	_ = s.process.Kill()
	<-s.process.ended
	s.process = nil
}

// Pause stops the server where it is: connections stay open, and nothing answers.
func (s *Server) Pause() { s.signal(syscall.SIGSTOP) }

// Resume lets a frozen server go on.
func (s *Server) Resume() { s.signal(syscall.SIGCONT) }

func (s *Server) signal(signal syscall.Signal) {
	s.t.Helper()
	if s.process == nil {
		s.t.Fatal("redis-server was killed")
	}
	if err := s.process.Signal(signal); err != nil {
		s.t.Fatalf("redis-server: %v: %v", signal, err)
	}
}

// Flush empties the server.
func (s *Server) Flush() {
	s.t.Helper()
	if err := s.Client().FlushAll(context.Background()).Err(); err != nil {
		s.t.Fatal(err)
	}
}

// Client returns a patient client of the server, without password or TLS. It is closed with the test.
func (s *Server) Client() *redis.Client {
	if s.client == nil {
		s.client = redis.NewClient(&redis.Options{
			Addr: s.Addr(), DialTimeout: patience, ReadTimeout: patience, DisableIdentity: true, MaxRetries: -1,
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
