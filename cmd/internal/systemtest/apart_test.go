package systemtest

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"opsgate/authn"
	"opsgate/cmd/internal/demo"
	"opsgate/cmd/internal/logging/loggingtest"
)

// patience is how long anything may take that is waited for.
const patience = time.Minute

// A program is a process that a test started, and that ends with the test.
type program struct {
	cmd    *exec.Cmd
	log    loggingtest.Buffer
	exited chan struct{}
}

// run starts a program and returns, with what it says of itself, once it serves.
func run(t *testing.T, name string, args ...string) (*program, map[string]any) {
	t.Helper()
	p := &program{cmd: exec.Command(filepath.Join(programs.dir, name), args...), exited: make(chan struct{})}
	p.cmd.Stderr = &p.log
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(p.exited)
		_ = p.cmd.Wait() // killed, or ended as it says in its log
	}()
	t.Cleanup(func() {
		p.kill()
		if t.Failed() {
			t.Logf("log of %s:\n%s", name, p.log.String())
		}
	})
	var said map[string]any
	eventually(t, name+" serves", func() bool {
		for line := range strings.Lines(p.log.String()) {
			said = nil
			if json.Unmarshal([]byte(line), &said) == nil && said["msg"] == "serving" {
				return true
			}
		}
		select {
		case <-p.exited:
			t.Fatalf("%s has ended", name)
		default:
		}
		return false
	})
	return p, said
}

// kill ends the program as the kernel does. It may have ended.
func (p *program) kill() {
	_ = p.cmd.Process.Kill()
	<-p.exited
}

func (p *program) signal(t *testing.T, s syscall.Signal) {
	t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		t.Fatal(err)
	}
}

// eventually waits until something holds.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(patience); !holds(); <-tick.C {
		if time.Now().After(end) {
			t.Fatalf("not within %v: %s", patience, what)
		}
	}
}

// apart is a backend and a gateway in front of it, in processes of their own.
type apart struct {
	*System // as its clients see it

	config           string // of the gateway
	data             string // of the backend
	backend, gateway *program
}

// startApart starts both, and returns when the gateway answers.
func startApart(t *testing.T, config string) *apart {
	t.Helper()
	all, err := demo.Tokens(authn.TokenFormat{Prefix: "ops_"})
	if err != nil {
		t.Fatal(err)
	}
	a := &apart{System: &System{Tokens: map[string]string{}}, config: config, data: filepath.Join(t.TempDir(), "data")}
	for _, token := range all {
		a.Tokens[token.Name] = token.Text
	}
	a.BackendAddr = "127.0.0.1:0"
	a.startBackend(t)
	a.startGateway(t)
	return a
}

// startBackend starts the backend with its data, where it was before.
func (a *apart) startBackend(t *testing.T) {
	t.Helper()
	var said map[string]any
	a.backend, said = run(t, "opsbackend", "serve", "--listen="+a.BackendAddr, "--data-dir="+a.data, "--seed=demo")
	a.BackendAddr = fmt.Sprint(said["address"])
}

// startGateway starts the gateway somewhere.
func (a *apart) startGateway(t *testing.T) {
	t.Helper()
	var text strings.Builder
	text.WriteString("listen: 127.0.0.1:0\nadmin: {listen: 127.0.0.1:0}\nupstreams:\n")
	for _, service := range []string{"fleet", "monitoring", "incident", "audit", "identity"} {
		fmt.Fprintf(&text, "  %s: {address: %q}\n", service, a.BackendAddr)
	}
	file := filepath.Join(t.TempDir(), "opsgate.yaml")
	if err := os.WriteFile(file, []byte(text.String()+highLimits+a.config), 0o600); err != nil {
		t.Fatal(err)
	}
	var said map[string]any
	a.gateway, said = run(t, "opsgate", "serve", "--config="+file)
	a.BaseURL, a.AdminURL = fmt.Sprint("http://", said["listen"]), fmt.Sprint("http://", said["admin_listen"])
	a.awaitAnswers(t)
}

// awaitAnswers waits until the gateway reaches the backend.
func (a *apart) awaitAnswers(t *testing.T) {
	t.Helper()
	full := a.as(t, "full")
	eventually(t, "the gateway answers", func() bool { return full.get(t, "/v1/incidents?limit=1").status == 200 })
}

// restartBackend kills the backend and starts it again.
func (a *apart) restartBackend(t *testing.T) {
	t.Helper()
	a.backend.kill()
	a.startBackend(t)
	a.awaitAnswers(t)
}

// restartGateway kills the gateway and starts another.
func (a *apart) restartGateway(t *testing.T) {
	t.Helper()
	a.gateway.kill()
	a.startGateway(t)
}
