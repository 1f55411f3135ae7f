package deploytest

import (
	"encoding/json"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// unit writes the unit, with the program where it is here, to a folder and returns its path.
func unit(t *testing.T) string {
	t.Helper()
	text := read(t, root+"/deploy/systemd/opsgate.service")
	path := filepath.Join(t.TempDir(), "opsgate.service")
	write(t, path, strings.ReplaceAll(text, "/usr/local/bin", programs))
	return path
}

func TestSystemdTakesTheUnit(t *testing.T) {
	said := run(t, exec.CommandContext(t.Context(), need(t, "systemd-analyze"), "verify", "--man=no", unit(t)))
	if regexp.MustCompile(`opsgate\.service:\d+`).MatchString(said) { // a key that it does not know is a warning to it
		t.Error(said)
	}
}

// Ten is a service that may do everything; what is left of this one is that it may use the network.
func TestTheUnitMayDoLittle(t *testing.T) {
	run(t, exec.CommandContext(t.Context(), need(t, "systemd-analyze"), "security", "--offline=true", "--no-pager", "--threshold=15", unit(t)))
}

// As much time as the default configuration allows for the drain, and a little more.
func TestTheUnitWaitsForTheDrain(t *testing.T) {
	var schema struct {
		Properties struct {
			Shutdown struct {
				Properties map[string]struct{ Default string }
			}
		}
	}
	printed := run(t, exec.CommandContext(t.Context(), filepath.Join(programs, "opsgate"), "schema"))
	if err := json.Unmarshal([]byte(printed), &schema); err != nil {
		t.Fatal(err)
	}
	keys := schema.Properties.Shutdown.Properties
	drain := duration(t, keys["drain_wait"].Default) + duration(t, keys["grace"].Default)
	stop := regexp.MustCompile(`(?m)^TimeoutStopSec=(.*)$`).FindStringSubmatch(read(t, unit(t)))
	if len(stop) == 0 || duration(t, stop[1]) != drain+10*time.Second {
		t.Errorf("it is killed after %q, and drains for %s", stop, drain)
	}
}

func duration(t *testing.T, text string) time.Duration {
	t.Helper()
	d, err := time.ParseDuration(text)
	if err != nil {
		t.Fatal(err)
	}
	return d
}
