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

// unit writes the unit, with the path of the built program, and returns its path.
func unit(t *testing.T) string {
	t.Helper()
	text := read(t, root+"/deploy/systemd/opsgate.service")
	path := filepath.Join(t.TempDir(), "opsgate.service")
	write(t, path, strings.ReplaceAll(text, "/usr/local/bin", programs))
	return path
}

func TestUnitIsValid(t *testing.T) {
	out := run(t, exec.CommandContext(t.Context(), need(t, "systemd-analyze"), "verify", "--man=no", unit(t)))
	if regexp.MustCompile(`opsgate\.service:\d+`).MatchString(out) { // an unknown key is only a warning
		t.Error(out)
	}
}

// The exposure level is at most 1.5 of 10: the unit can use the network.
func TestUnitIsSandboxed(t *testing.T) {
	run(t, exec.CommandContext(t.Context(), need(t, "systemd-analyze"), "security", "--offline=true", "--no-pager", "--threshold=15", unit(t)))
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
	if err := json.Unmarshal([]byte(printed), &schema); err != nil {
		t.Fatal(err)
	}
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
	if err != nil {
		t.Fatal(err)
	}
	return d
}
