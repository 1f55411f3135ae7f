package deploytest

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"opsgate/backendclient/testkit"
)

// A dockerEngine is a Docker daemon of its own, in its own network namespace: it reaches no network, and what it publishes collides with nothing.
type dockerEngine struct {
	dir       string
	namespace string // the file of its network namespace
}

// startEngine starts a Docker daemon with Docker Compose. If this machine cannot run one, the test is skipped and names the probe that failed.
func startEngine(t *testing.T) *dockerEngine {
	t.Helper()
	testkit.SkipIfShort(t)
	for _, program := range []string{"docker", "dockerd", "ip", "iptables", "nsenter", "unshare"} {
		testkit.Find(t, program)
	}
	probe(t, "unshare", "--net", "--mount", "sh", "-c",
		"ip link set lo up && ip link add probe0 type bridge && ip link add probe1 type veth && iptables -t nat -S && mount -t tmpfs tmpfs /mnt")
	e := &dockerEngine{dir: t.TempDir()}
	log := new(bytes.Buffer)
	// The exec-root has short paths, because those of sockets are bounded.
	daemon := exec.Command("unshare", "--net", "--mount", "sh", "-c",
		`ip link set lo up && exec dockerd --host "unix://$0/sock" --data-root "$0/data" --exec-root "$0/exec" --pidfile "$0/pid"`, e.dir)
	daemon.Stdout, daemon.Stderr = log, log
	daemon.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	testkit.Must(t, daemon.Start())
	ended := make(chan error, 1)
	go func() { ended <- daemon.Wait() }()
	t.Cleanup(func() {
		_ = daemon.Process.Signal(syscall.SIGTERM) // it stops its containers and containerd
		<-ended
	})
	e.namespace = fmt.Sprintf("/proc/%d/ns/net", daemon.Process.Pid)
	e.installCompose(t)
	ready := time.Now().Add(testkit.MaxWait)
	for exec.Command("docker", "--host", "unix://"+e.dir+"/sock", "info").Run() != nil {
		select {
		case err := <-ended:
			ended <- err
			testkit.SkipWithout(t, "a Docker daemon", fmt.Sprintf("%v\n%s", err, log))
		case <-time.After(100 * time.Millisecond):
		}
		if time.Now().After(ready) {
			t.Fatal("the Docker daemon does not answer")
		}
	}
	return e
}

// probe skips the test if a command fails that the Docker daemon depends on.
func probe(t *testing.T, args ...string) {
	t.Helper()
	if out, err := exec.CommandContext(t.Context(), args[0], args[1:]...).CombinedOutput(); err != nil {
		testkit.SkipWithout(t, "the right to run containers", fmt.Sprintf("%q: %v\n%s", args, err, out))
	}
}

// installCompose makes the pinned Docker Compose the plugin of the docker command.
func (e *dockerEngine) installCompose(t *testing.T) {
	t.Helper()
	build := exec.CommandContext(t.Context(), "go", "build", "-o", filepath.Join(e.dir, "config", "cli-plugins", "docker-compose"),
		"github.com/docker/compose/v2/cmd")
	build.Dir = filepath.Join(root, "tools", "compose")
	build.Env = append(os.Environ(), "GOFLAGS=")
	run(t, build)
}

// command returns a command of a shell in the engine's network. It finds the engine as docker finds the machine's.
func (e *dockerEngine) command(ctx context.Context, line string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "nsenter", "--net="+e.namespace, "sh", "-euc", line)
	cmd.Env = append(os.Environ(), "DOCKER_HOST=unix://"+e.dir+"/sock", "DOCKER_CONFIG="+e.dir+"/config", "DOCKER_BUILDKIT=1")
	return cmd
}

// sh runs a line of a shell in the engine's network and returns its output without white space around it.
func (e *dockerEngine) sh(t *testing.T, line string) string {
	t.Helper()
	return strings.TrimSpace(run(t, e.command(t.Context(), line)))
}

// client returns an HTTP client in the engine's network.
func (e *dockerEngine) client() *http.Client {
	return &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DialContext: e.dial, DisableKeepAlives: true}}
}

// dial connects from the engine's network: a socket belongs to the namespace of the thread that opened it. The thread must not end, because
// the daemon ends with the thread that started it.
func (e *dockerEngine) dial(ctx context.Context, network, address string) (net.Conn, error) {
	own, err := os.Open("/proc/thread-self/ns/net")
	if err != nil {
		return nil, err
	}
	defer func() { _ = own.Close() }()
	namespace, err := os.Open(e.namespace)
	if err != nil {
		return nil, err
	}
	defer func() { _ = namespace.Close() }()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := unix.Setns(int(namespace.Fd()), unix.CLONE_NEWNET); err != nil {
		return nil, err
	}
	defer func() {
		if err := unix.Setns(int(own.Fd()), unix.CLONE_NEWNET); err != nil {
			panic(err) // this thread would run other tests
		}
	}()
	return new(net.Dialer).DialContext(ctx, network, address)
}
