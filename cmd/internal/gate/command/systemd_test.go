package command_test

import (
	"net"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"opsgate/backendclient/testkit"
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
