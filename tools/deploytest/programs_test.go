package deploytest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

const (
	// root is that of the repository.
	root = "../.."
	// What is installed says that it is this build.
	version, revision, buildDate = "1.2.3", "0123456789abcdef", "2026-01-31T12:00:00+00:00"
)

// programs is the folder of the programs as the Dockerfile builds them, once for all tests.
var programs string

func TestMain(m *testing.M) {
	code, err := buildAndRun(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func buildAndRun(m *testing.M) (code int, err error) {
	if programs, err = os.MkdirTemp("", "deploytest-"); err != nil {
		return 0, err
	}
	defer func() { _ = os.RemoveAll(programs) }()
	file, err := readDockerfile()
	if err != nil {
		return 0, err
	}
	command, err := file.buildCommand()
	if err != nil {
		return 0, err
	}
	build := exec.Command("sh", "-c", strings.ReplaceAll(command, "/out", programs))
	build.Dir, build.Stderr = root, os.Stderr
	build.Env = append(os.Environ(), "GOFLAGS=", "TARGETOS=", "TARGETARCH=",
		"VERSION="+version, "REVISION="+revision, "BUILD_DATE="+buildDate)
	if err := build.Run(); err != nil {
		return 0, fmt.Errorf("build as the Dockerfile does: %w", err)
	}
	return m.Run(), nil
}

// need returns the path of a program. The test is skipped without it, and fails where everything must be there.
func need(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	switch {
	case err == nil:
	case os.Getenv("CI") != "":
		t.Fatalf("%s is needed: %v", name, err)
	default:
		t.Skipf("%s is not installed", name)
	}
	return path
}

// run runs a command and returns what it prints.
func run(t *testing.T, cmd *exec.Cmd) string {
	t.Helper()
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %v\n%s", cmd.Args, err, out)
	}
	return string(out)
}

// check has opsgate check a configuration. Secrets are looked for in a folder instead of where they are mounted.
func check(t *testing.T, config, mounted string, secrets map[string]string) {
	t.Helper()
	dir := t.TempDir()
	for name, content := range secrets {
		write(t, filepath.Join(dir, name), content)
	}
	path := filepath.Join(dir, "opsgate.yaml")
	write(t, path, strings.ReplaceAll(config, mounted, dir))
	cmd := exec.CommandContext(t.Context(), filepath.Join(programs, "opsgate"), "check", "--config", path)
	for line := range strings.Lines(run(t, cmd)) {
		if strings.HasPrefix(line, "warning: ") && !onPlatformNetwork(line) {
			t.Errorf("the configuration is unwise: %s", line)
		}
	}
}

// onPlatformNetwork returns whether a warning is of plaintext on a network of the platform's own: that of Prometheus and probes to the
// admin listener, and of calls to services and Redis where the example has no certificates for them.
func onPlatformNetwork(warning string) bool {
	return strings.Contains(warning, "admin.token: goes over the network in plaintext") ||
		strings.Contains(warning, "listen: is :8080, not on loopback, without TLS") ||
		strings.Contains(warning, ", not on loopback, and upstreams.") ||
		strings.Contains(warning, "rate_limit.redis.password: goes to ")
}

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}
