package deploytest

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"opsgate/backendclient/testkit"
)

const (
	// root is the root of the repository.
	root = "../.."
	// The build of the tested programs.
	version, revision, buildDate = "1.2.3", "0123456789abcdef", "2026-01-31T12:00:00+00:00"
)

// programs is the folder of the programs, built with the command of the Dockerfile.
var programs string

func TestMain(m *testing.M) {
	os.Exit(testkit.RunBuilt(build, func(dir string) int {
		programs = dir
		return m.Run()
	}))
}

func build(dir string) error {
	file, err := readDockerfile()
	if err != nil {
		return err
	}
	line, err := file.buildCommand()
	if err != nil {
		return err
	}
	command := exec.Command("sh", "-c", strings.ReplaceAll(line, "/out", dir))
	command.Dir, command.Stderr = root, os.Stderr
	command.Env = append(os.Environ(), "GOFLAGS=", "GOTOOLCHAIN=auto", "TARGETOS=", "TARGETARCH=",
		"VERSION="+version, "REVISION="+revision, "BUILD_DATE="+buildDate)
	return command.Run()
}

// run runs a command and returns its output.
func run(t *testing.T, cmd *exec.Cmd) string {
	t.Helper()
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %v\n%s", cmd.Args, err, out)
	}
	return string(out)
}

// check runs opsgate check on a configuration, with secrets in a temporary folder instead of their mount.
func check(t *testing.T, config, mounted string, secrets map[string]string) {
	t.Helper()
	dir := t.TempDir()
	for name, content := range secrets {
		write(t, filepath.Join(dir, name), content)
	}
	path := filepath.Join(dir, "opsgate.yaml")
	write(t, path, strings.ReplaceAll(config, mounted, dir))
	cmd := exec.CommandContext(t.Context(), filepath.Join(programs, "opsgate"), "check", "--config", path)
	mustNotWarn(t, run(t, cmd))
}

// mustNotWarn fails the test for each warning in the output of a check that is not about the platform's network.
func mustNotWarn(t *testing.T, out string) {
	t.Helper()
	for line := range strings.Lines(out) {
		if strings.HasPrefix(line, "warning: ") && !onPlatformNetwork(line) {
			t.Errorf("unexpected warning: %s", line)
		}
	}
}

// onPlatformNetwork reports whether a warning is about plain text inside the platform's network, to the admin listener, services and
// Redis, for which the examples have no certificates.
func onPlatformNetwork(warning string) bool {
	return strings.Contains(warning, "admin.token: goes over the network in plaintext") ||
		strings.Contains(warning, "listen: is :8080, not on loopback, without TLS") ||
		strings.Contains(warning, ", not on loopback, and upstreams.") ||
		strings.Contains(warning, "rate_limit.redis.password: goes to ")
}

func write(t *testing.T, path, content string) {
	t.Helper()
	testkit.Must(t, os.MkdirAll(filepath.Dir(path), 0o700))
	testkit.Must(t, os.WriteFile(path, []byte(content), 0o600))
}

func read(t *testing.T, path string) string {
	t.Helper()
	content, err := os.ReadFile(path)
	testkit.Must(t, err)
	return string(content)
}
