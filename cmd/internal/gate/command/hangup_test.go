package command_test

import (
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"testing"

	"opsgate/backendclient/testkit"
)

func TestSIGHUPReloadsTheConfiguration(t *testing.T) {
	ignoreHangUps(t)
	const mistyped = "OPSGATE_HTTP_MAX_BODY_BITES"
	file := write(t, good)
	log, stop := serve(t, []string{mistyped + "=1"}, "--config", file, "--log-level", "info")
	before := fmt.Sprint(awaitLine(t, log, "serving")["config_version"])
	hangUp(t)
	line := awaitLine(t, log, "configuration unchanged")
	if line["why"] != "SIGHUP" || line["config_version"] != before || len(before) != 12 {
		t.Errorf("got %v, want version %q", line, before)
	}

	rewrite(t, file, good+"log: {level: debug}\nhttp: {max_body_bytes: 1MiB}\n")
	hangUp(t)
	line = awaitLine(t, log, "configuration reloaded")
	changed := fmt.Sprint(line["changed"])
	if line["config_version_before"] != before || line["config_version"] == before || changed != "[http.max_body_bytes: 128KiB, now 1MiB]" {
		t.Errorf("got %v: the flag overrides log.level of the file", line)
	}

	warned := strings.Count(log.String(), mistyped)
	rewrite(t, file, good+"http:\n  max_body_bytes: 1 MB\nlisten: 127.0.0.1:1\n")
	hangUp(t)
	line = awaitLine(t, log, "configuration refused")
	if line["file"] != file || line["line"] != 11.0 || line["key"] != "http.max_body_bytes" || !strings.Contains(fmt.Sprint(line["problem"]), "is not a size") {
		t.Errorf("got %v", line)
	}
	stop()
	if strings.Count(log.String(), mistyped) == warned {
		t.Errorf("the refusal is logged without its warnings:\n%s", log)
	}
}

// ignoreHangUps prevents that a signal after serve has ended ends the tests.
func ignoreHangUps(t *testing.T) {
	t.Helper()
	ignored := make(chan os.Signal, 10)
	signal.Notify(ignored, syscall.SIGHUP)
	t.Cleanup(func() { signal.Stop(ignored) })
}

func hangUp(t *testing.T) {
	t.Helper()
	testkit.Must(t, syscall.Kill(os.Getpid(), syscall.SIGHUP))
}

// rewrite replaces a file in one step.
func rewrite(t *testing.T, path, content string) {
	t.Helper()
	testkit.Must(t, os.Rename(write(t, content), path))
}
