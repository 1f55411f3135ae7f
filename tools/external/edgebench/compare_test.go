package main

import (
	"context"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"opsgate/internal/testkit"
	"opsgate/ratelimit/redisstore/redistest"
)

// Each part answers the compared requests with 200, which load checks, in processes of its own.
func TestPartsServeTheComparedRequests(t *testing.T) {
	redis := redistest.Start(t).Addr()
	dir := t.TempDir()
	self := filepath.Join(dir, "edgebench")
	testkit.Output(t, exec.CommandContext(t.Context(), "go", "build", "-o", self, "."))
	ctx, cancel := context.WithCancel(context.Background())
	part := func(name, backend string) *process {
		p, err := start(ctx, dir, name, "address", self, "serve", name, backend, redis)
		testkit.Must(t, err)
		t.Cleanup(func() {
			cancel()
			_ = p.cmd.Wait() // ended by SIGTERM
		})
		return p
	}
	backend := part(partBackend, "-")
	for _, name := range []string{partBare, partBuilt, partFloor} {
		p := part(name, backend.address)
		for _, sc := range scenarios() {
			if answered, err := load(t.Context(), p.address, sc.request(p, "token"), 2, 50*time.Millisecond); err != nil || len(answered) == 0 {
				t.Errorf("%s, %s: %d answered, %v", name, sc.name, len(answered), err)
			}
		}
	}
}

func TestReportDetectsAMissedBar(t *testing.T) {
	edges := []*process{{name: "opsgate"}, {name: partBare}}
	for name, c := range map[string]struct {
		ratio    float64
		resident int64
		missed   bool
	}{
		"within":          {ratio: 0.4},
		"too much CPU":    {ratio: 0.9, missed: true},
		"too much memory": {ratio: 0.4, resident: residentBar + 1, missed: true},
	} {
		t.Run(name, func(t *testing.T) {
			samples := []sample{{ratio: 1, resident: c.resident}, {ratio: c.ratio}}
			out := new(strings.Builder)
			if missed := report(out, options{}, edges, [][]sample{samples, samples, samples}); missed != c.missed {
				t.Errorf("missed: %t; the report is\n%s", missed, out)
			}
		})
	}
}
