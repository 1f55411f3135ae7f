package deploytest

import (
	"encoding/json"
	"net/http"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"opsgate/backendclient/testkit"
)

// unit writes the units, with the path of the built program, and returns the path of the service.
func unit(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"opsgate.socket", "opsgate.service"} {
		text := read(t, root+"/deploy/systemd/"+name)
		write(t, filepath.Join(dir, name), strings.ReplaceAll(text, "/usr/local/bin", programs))
	}
	return filepath.Join(dir, "opsgate.service")
}

func TestUnitsAreValid(t *testing.T) {
	service := unit(t)
	socket := strings.TrimSuffix(service, ".service") + ".socket"
	out := run(t, exec.CommandContext(t.Context(), testkit.Find(t, "systemd-analyze"), "verify", "--man=no", service, socket))
	if regexp.MustCompile(`opsgate\.(service|socket):\d+`).MatchString(out) { // an unknown key is only a warning
		t.Error(out)
	}
}

// The exposure level is at most 1.2 of 10, as docs/operate/install.md states: the unit can use the network. The unit of the socket runs no
// program.
func TestUnitIsSandboxed(t *testing.T) {
	run(t, exec.CommandContext(t.Context(), testkit.Find(t, "systemd-analyze"), "security", "--offline=true", "--no-pager", "--threshold=12", unit(t)))
	if text := read(t, root+"/deploy/systemd/opsgate.socket"); strings.Contains(text, "Exec") {
		t.Errorf("the unit of the socket runs a program:\n%s", text)
	}
}

// systemd-socket-activate passes a socket as systemd does for the unit, whose name of the socket it takes, and starts the gateway at the
// first connection.
func TestGatewayServesTheSocketOfSystemd(t *testing.T) {
	program := testkit.Find(t, "systemd-socket-activate")
	address := testkit.FreeAddress(t)
	name := regexp.MustCompile(`(?m)^FileDescriptorName=(.*)$`).FindStringSubmatch(read(t, root+"/deploy/systemd/opsgate.socket"))
	if name == nil {
		t.Fatal("the unit of the socket has no FileDescriptorName=")
	}
	path := filepath.Join(t.TempDir(), "opsgate.yaml")
	write(t, path, strings.NewReplacer("listen: 127.0.0.1:0", "listen: "+address, "ADMIN", "0").Replace(standalone))
	testkit.Start(t, exec.Command(program, "--listen="+address, "--fdname="+name[1], filepath.Join(programs, "opsgate"), "serve", "--config", path))
	var got answer
	testkit.Eventually(t, "the socket is open", func() bool {
		got = fetch(t, http.DefaultClient, http.MethodGet, "http://"+address+"/openapi.json", nil, "")
		return got.status != 0
	})
	if got.status != http.StatusOK {
		t.Errorf("got %+v", got)
	}
}

// TimeoutStopSec is the default drain time plus ten seconds.
func TestUnitWaitsForTheDrain(t *testing.T) {
	var schema struct {
		Properties struct {
			Shutdown struct {
				Properties map[string]struct{ Default string }
			}
		}
	}
	printed := run(t, exec.CommandContext(t.Context(), filepath.Join(programs, "opsgate"), "schema"))
	testkit.Must(t, json.Unmarshal([]byte(printed), &schema))
	keys := schema.Properties.Shutdown.Properties
	drain := duration(t, keys["drain_wait"].Default) + duration(t, keys["grace"].Default)
	stop := regexp.MustCompile(`(?m)^TimeoutStopSec=(.*)$`).FindStringSubmatch(read(t, unit(t)))
	if len(stop) == 0 || duration(t, stop[1]) != drain+10*time.Second {
		t.Errorf("TimeoutStopSec is %q, the drain takes %s", stop, drain)
	}
}

func duration(t *testing.T, text string) time.Duration {
	t.Helper()
	d, err := time.ParseDuration(text)
	testkit.Must(t, err)
	return d
}
