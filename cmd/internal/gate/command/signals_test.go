package command_test

import (
	"fmt"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"opsgate/internal/testkit"
)

func TestSystemdIsNotifiedOfStartReloadAndStop(t *testing.T) {
	ignoreHangUps(t)
	address := filepath.Join(t.TempDir(), "notify")
	manager, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: address, Net: "unixgram"})
	testkit.Must(t, err)
	defer func() { _ = manager.Close() }()
	t.Setenv("NOTIFY_SOCKET", address)

	file := write(t, good)
	_, stop := serve(t, nil, "--config", file)
	notification(t, manager, "READY=1")
	rewrite(t, file, "listn: 1\n")
	hangUp(t)
	reloading := notification(t, manager, "RELOADING=1")
	if at, err := strconv.ParseInt(reloading["MONOTONIC_USEC"], 10, 64); err != nil || at <= 0 {
		t.Errorf("got %v: systemd needs the monotonic time to match a reload", reloading)
	}
	notification(t, manager, "READY=1") // after the refusal
	go stop()
	stopping := notification(t, manager, "STOPPING=1")
	if got, want := stopping["EXTEND_TIMEOUT_USEC"], "28000000"; got != want { // no drain wait, 20 s of grace, 2 s for refunds, and the rest to stop
		t.Errorf("got %s µs, want %s", got, want)
	}
	stop()
}

// notification returns the fields of the next message, which must begin with the state.
func notification(t *testing.T, manager *net.UnixConn, state string) map[string]string {
	t.Helper()
	testkit.Must(t, manager.SetReadDeadline(time.Now().Add(time.Minute)))
	buffer := make([]byte, 4096)
	n, err := manager.Read(buffer)
	if err != nil {
		t.Fatalf("waiting for %s: %v", state, err)
	}
	message := string(buffer[:n])
	if !strings.HasPrefix(message, state+"\n") {
		t.Fatalf("got %q, want %s", message, state)
	}
	fields := map[string]string{}
	for line := range strings.Lines(message) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		fields[name] = value
	}
	return fields
}

func TestServeStartsWithoutAReachableSystemd(t *testing.T) {
	t.Setenv("NOTIFY_SOCKET", filepath.Join(t.TempDir(), "missing"))
	log, _ := serve(t, nil, "--config", write(t, good))
	if line := awaitLine(t, log, "systemd notification failed"); line["level"] != "WARN" {
		t.Errorf("got %v", line)
	}
}

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
