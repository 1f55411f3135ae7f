package clients

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"opsgate/internal/testkit"
)

var crowds = flag.Bool("crowds", false, "run 6 and 20 processes of each package with one token")

// crowdCalls is how many requests each process of a crowd sends, one after the other.
const crowdCalls = 20

// Processes that share a token all get through, although many of their requests are denied.
func TestNoProcessThatSharesATokenFails(t *testing.T) {
	if !*crowds {
		testkit.SkipLong(t, "make crowds")
	}
	readSources(t)
	built := buildPackages(t)
	tokens := map[string]string{"python": "full", "typescript": "read", "go": "incidents:write"}
	for _, processes := range []int{6, 20} {
		t.Run(fmt.Sprint(processes, "Processes"), func(t *testing.T) {
			s := start(t, "")
			for _, p := range packages {
				t.Run(p.name, func(t *testing.T) {
					t.Parallel()
					program, dir := p.prepare(t, built)
					checkCrowd(t, processes, dir, s.BaseURL, s.Tokens[tokens[p.name]], append(program, "pace", fmt.Sprint(crowdCalls), "1"))
				})
			}
		})
	}
}

// checkCrowd runs processes of a program at once.
func checkCrowd(t *testing.T, processes int, dir, url, token string, argv []string) {
	t.Helper()
	begun := time.Now()
	var mu sync.Mutex
	var failed []string
	var all sync.WaitGroup
	for range processes {
		all.Go(func() {
			command := exec.CommandContext(t.Context(), argv[0], argv[1:]...)
			command.Dir, command.Env = dir, append(os.Environ(), "OPSCTL_URL="+url, "OPSCTL_TOKEN="+token)
			output, err := command.Output()
			if exit, ok := errors.AsType[*exec.ExitError](err); ok {
				output = exit.Stderr
			}
			if err != nil || string(output) != "[]\n" {
				mu.Lock()
				failed = append(failed, string(output))
				mu.Unlock()
			}
		})
	}
	all.Wait()
	t.Logf("%d calls of %d processes in %v", processes*crowdCalls, processes, time.Since(begun).Round(time.Second))
	if len(failed) > 0 {
		t.Errorf("%d processes with failed calls:\n%s", len(failed), strings.Join(failed, ""))
	}
}
