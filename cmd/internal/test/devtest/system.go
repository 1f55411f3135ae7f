package devtest

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"opsgate/cmd/internal/dev/command"
	"opsgate/internal/testkit"
)

// HighLimits is a configuration whose rate limits no test reaches.
const HighLimits = "rate_limit: {limits: [{requests: 1000000, per: 1s}]}\n"

// A System is a running opsdev.
type System struct {
	BaseURL     string            `json:"baseUrl"`
	AdminURL    string            `json:"adminUrl"`
	BackendAddr string            `json:"backendAddr"`
	Tokens      map[string]string `json:"tokens"` // by name

	// Out and Log are its standard output and standard error.
	Out, Log testkit.Buffer

	// Stop stops it and returns the exit code. It may be called repeatedly; the end of the test
	// calls it too.
	Stop func() int
	// Exited is closed when it has ended.
	Exited chan struct{}
}

// Start runs opsdev with still demo data, a gateway configuration and further arguments, and
// returns when it serves.
func Start(t *testing.T, configuration string, arguments ...string) *System {
	t.Helper()
	config := filepath.Join(t.TempDir(), "opsgate.yaml")
	testkit.Must(t, os.WriteFile(config, []byte(configuration), 0o600))
	return Run(t, append([]string{"--still", "--config=" + config}, arguments...)...)
}

// Run runs opsdev on free ports, and returns when it serves.
func Run(t *testing.T, arguments ...string) *System {
	t.Helper()
	credentials := filepath.Join(t.TempDir(), "credentials.json")
	arguments = append([]string{"--listen=127.0.0.1:0", "--admin-listen=127.0.0.1:0", "--credentials=" + credentials},
		arguments...)
	s := &System{Exited: make(chan struct{})}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	code := 0
	go func() {
		defer close(s.Exited)
		code = command.Run(ctx, arguments, command.Environment{Out: &s.Out, Err: &s.Log})
	}()
	s.Stop = sync.OnceValue(func() int {
		cancel()
		<-s.Exited
		return code
	})
	t.Cleanup(func() { s.Stop() })
	s.readCredentials(t, credentials)
	return s
}

// readCredentials waits for the file, which opsdev writes when it serves.
func (s *System) readCredentials(t *testing.T, path string) {
	t.Helper()
	testkit.Eventually(t, "opsdev serves", func() bool {
		select {
		case <-s.Exited:
			t.Fatalf("opsdev ended:\n%s", s.Log.String())
		default:
		}
		content, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			return false
		}
		testkit.Must(t, errors.Join(err, json.Unmarshal(content, s)))
		return true
	})
	info, err := os.Stat(path)
	testkit.Must(t, err)
	if info.Mode().Perm() != 0o600 {
		t.Errorf("the credentials have mode %v", info.Mode())
	}
}
