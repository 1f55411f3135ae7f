package wiring_test

import (
	"os"
	"strings"
	"syscall"
	"testing"

	"opsgate/internal/testkit"
)

// putPipe replaces a file by a pipe without a writer, which cannot be opened for reading without
// waiting.
func putPipe(t *testing.T, path string) {
	t.Helper()
	testkit.Must(t, syscall.Mkfifo(path+".pipe", 0o600))
	testkit.Must(t, os.Rename(path+".pipe", path))
}

// A configuration file that is a pipe is refused. It keeps neither a later reload nor the end of
// the gateway.
func TestPipeInsteadOfTheFileIsRefused(t *testing.T) {
	r := start(t, limits(100))
	putPipe(t, r.file)
	line := r.await(t, "configuration refused")
	if problem, _ := line["problem"].(string); !strings.Contains(problem, r.file+" is a pipe, not a regular file") {
		t.Errorf("got %v", line)
	}
	r.mustHaveMetric(t, "opsgate_config_last_reload_successful", "0")
	r.mustAdmit(t, 100)
	r.write(t, limits(200))
	testkit.Eventually(t, "the file is in force", func() bool { return requests(r.get(t, r.Address(), "/v1/servers")) == 200 })
	putPipe(t, r.file)
	testkit.Eventually(t, "the pipe is refused again", func() bool { return len(r.lines("configuration refused")) == 2 })
	r.finish(t)
}
