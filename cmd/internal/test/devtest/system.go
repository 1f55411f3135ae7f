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
	"time"

	"opsgate/cmd/internal/dev/command"
	"opsgate/cmd/internal/kit/logging/loggingtest"
	"opsgate/cmd/internal/test/testkit"
)

// HighLimits is a configuration whose rate limits no test reaches.
const HighLimits = "rate_limit: {limits: [{requests: 1000000, per: 1s}]}\n"

// A System is a running opsdev.
type System struct {
	BaseURL string            `json:"baseUrl"`
	Tokens  map[string]string `json:"tokens"` // by name

	// Out and Log are its standard output and standard error.
	Out, Log loggingtest.Buffer

	// Stop stops it and returns the exit code. It may be called repeatedly; the end of the test calls it too.
	Stop func() int
}

// Start runs opsdev with still demo data, a gateway configuration and further arguments, and returns when it serves.
func Start(t *testing.T, configuration string, arguments ...string) *System {
	t.Helper()
	return StartMoving(t, configuration, append([]string{"--still"}, arguments...)...)
}

// StartMoving runs opsdev as Start does, with demo data that moves.
func StartMoving(t *testing.T, configuration string, arguments ...string) *System {
	t.Helper()
	dir := t.TempDir()
	config, credentials := filepath.Join(dir, "opsgate.yaml"), filepath.Join(dir, "credentials.json")
	testkit.Must(t, os.WriteFile(config, []byte(configuration), 0o600))
	arguments = append([]string{
		"--listen=127.0.0.1:0", "--admin-listen=127.0.0.1:0", "--config=" + config, "--credentials=" + credentials,
	}, arguments...)
	s := new(System)
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	exited, code := make(chan struct{}), 0
	go func() {
		defer close(exited)
		code = command.Run(ctx, arguments, command.Environment{Out: &s.Out, Err: &s.Log})
	}()
	s.Stop = sync.OnceValue(func() int {
		cancel()
		<-exited
		return code
	})
	t.Cleanup(func() { s.Stop() })
	s.readCredentials(t, credentials, exited)
	return s
}

// readCredentials waits for the file, which opsdev writes when it serves.
func (s *System) readCredentials(t *testing.T, path string, exited <-chan struct{}) {
	t.Helper()
	limit, tick := time.After(3*time.Minute), time.NewTicker(10*time.Millisecond) // the demo data takes long under the race detector
	defer tick.Stop()
	for {
		content, err := os.ReadFile(path)
		if err == nil {
			err = json.Unmarshal(content, s)
		}
		switch {
		case err == nil:
			return
		case !errors.Is(err, fs.ErrNotExist):
			t.Fatal(err)
		}
		select {
		case <-exited:
			t.Fatalf("opsdev ended:\n%s", s.Log.String())
		case <-limit:
			t.Fatalf("opsdev is not ready:\n%s", s.Log.String())
		case <-tick.C:
		}
	}
}
