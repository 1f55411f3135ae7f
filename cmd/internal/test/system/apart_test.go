package system

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"opsgate/authn"
	"opsgate/backendclient/testkit"
	"opsgate/cmd/internal/backend/demo"
)

// run starts a program, waits for its log record "serving", and returns both. The program is killed at the end of the test.
func run(t *testing.T, name string, args ...string) (*testkit.Process, map[string]any) {
	t.Helper()
	p := testkit.Start(t, exec.Command(filepath.Join(programs.dir, name), args...))
	t.Cleanup(p.Kill)
	return p, p.MustRecord(t, "serving")
}

// apart is a backend and a gateway in separate processes.
type apart struct {
	*System // addresses and tokens

	config           string // of the gateway
	data             string // directory of the backend
	backend, gateway *testkit.Process
}

// startApart starts both programs and waits until the gateway reaches the backend.
func startApart(t *testing.T, config string) *apart {
	t.Helper()
	all, err := demo.Tokens(authn.TokenFormat{Prefix: "ops_"})
	testkit.Must(t, err)
	a := &apart{System: &System{Tokens: map[string]string{}}, config: config, data: filepath.Join(t.TempDir(), "data")}
	for _, token := range all {
		a.Tokens[token.Name] = token.Text
	}
	a.BackendAddr = "127.0.0.1:0"
	a.startBackend(t)
	a.startGateway(t)
	return a
}

// startBackend starts the backend with its data, at its previous address.
func (a *apart) startBackend(t *testing.T) {
	t.Helper()
	var serving map[string]any
	a.backend, serving = run(t, "opsbackend", "serve", "--listen="+a.BackendAddr, "--data-dir="+a.data, "--seed=demo")
	a.BackendAddr = fmt.Sprint(serving["address"])
}

// startGateway starts the gateway at a free port.
func (a *apart) startGateway(t *testing.T) {
	t.Helper()
	var text strings.Builder
	text.WriteString("listen: 127.0.0.1:0\nadmin: {listen: 127.0.0.1:0}\nupstreams:\n")
	for _, service := range []string{"fleet", "monitoring", "incident", "audit", "identity"} {
		fmt.Fprintf(&text, "  %s: {address: %q}\n", service, a.BackendAddr)
	}
	file := filepath.Join(t.TempDir(), "opsgate.yaml")
	testkit.Must(t, os.WriteFile(file, []byte(text.String()+highLimits+a.config), 0o600))
	var serving map[string]any
	a.gateway, serving = run(t, "opsgate", "serve", "--config="+file)
	a.BaseURL, a.AdminURL = fmt.Sprint("http://", serving["listen"]), fmt.Sprint("http://", serving["admin_listen"])
	a.awaitAnswers(t)
}

// awaitAnswers waits until the gateway reaches the backend.
func (a *apart) awaitAnswers(t *testing.T) {
	t.Helper()
	full := a.as(t, "full")
	testkit.Eventually(t, "the gateway answers", func() bool { return full.get(t, "/v1/incidents?limit=1").status == 200 })
}
