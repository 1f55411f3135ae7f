package chaos

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"opsgate/cmd/internal/test/testkit"
)

// The reader of the log hangs or is closed. No request fails, and the gateway stops on SIGTERM.
func TestLogReaderHangsOrIsClosed(t *testing.T) {
	skipIfShort(t)
	for name, closed := range map[string]bool{"the reader hangs": false, "the reader is closed": true} {
		t.Run(name, func(t *testing.T) {
			reader, g := startLoggingTo(t)
			if closed {
				must(t, reader.Close())
			}
			all := load{gateways: []*gateway{g}, rate: 400, clients: 16}
			noneFailed(t, otherRow, all.during(t, either(4*time.Second, 2*time.Second))) // long enough to fill the pipe
			begun := time.Now()
			g.Signal(t, syscall.SIGTERM)
			select {
			case <-g.Exited:
				within(t, otherRow, "until a gateway with an unread log had exited", time.Since(begun), 5*time.Second)
			case <-time.After(maxWait):
				t.Error("the gateway does not exit")
			}
			g.MayFail() // its exit code may be an error
		})
	}
}

// startLoggingTo runs a gateway whose log is read only until it serves.
func startLoggingTo(t *testing.T) (*os.File, *gateway) {
	t.Helper()
	reader, writer, err := os.Pipe()
	must(t, err)
	t.Cleanup(func() { _ = reader.Close() })
	g := newGateway(t, "opsgate", everyService(shared.address), unlimited)
	command := exec.Command("sh", "-c", `exec "$0" "$@" 2>&3`, program("opsgate"), "serve", "--config="+g.file)
	command.ExtraFiles = []*os.File{writer}
	if g.Process, err = testkit.Launch(command); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { g.End(t) })
	must(t, writer.Close())
	for lines := bufio.NewScanner(reader); lines.Scan(); {
		var line map[string]any
		must(t, json.Unmarshal(lines.Bytes(), &line))
		if line["msg"] == "serving" {
			g.url, g.admin = fmt.Sprint("http://", line["listen"]), fmt.Sprint("http://", line["admin_listen"])
			break
		}
	}
	eventually(t, "the gateway is ready", func() bool { return strings.Contains(g.get(t, "/readyz"), `"status":"ready"`) })
	return reader, g
}
