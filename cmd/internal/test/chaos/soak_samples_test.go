package chaos

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"
	"time"
)

// sample has the resource usage of one gateway at one moment.
type sample struct {
	part    int // of the soak
	gateway int
	idle    bool // taken without faults and requests
	of      map[string]float64
}

// resource is a resource whose usage must not grow.
type resource struct {
	name, metric string
	idle         bool // only idle samples count
	bound        float64
}

// Heap in use includes fragmentation after bursts. Resident memory is mostly garbage and varies more.
var resources = []resource{
	{"heap, bytes", "HeapAlloc", true, .05},
	{"heap in use, bytes", "HeapInuse", true, .10},
	{"resident, bytes", "process_resident_memory_bytes", false, .10},
	{"goroutines", "go_goroutines", true, .05},
	{"file descriptors", "process_open_fds", true, .05},
}

// whilePaused calls do while no requests are in flight.
func (s *soak) whilePaused(do func()) {
	s.pause.Lock()
	defer s.pause.Unlock()
	do()
}

// takeSamples samples both gateways.
func (s *soak) takeSamples(t *testing.T, part int, idle bool) {
	t.Helper()
	for i, g := range s.gateways {
		taken := sample{part: part, gateway: i, idle: idle, of: g.heap(t)}
		for _, r := range resources {
			if !strings.HasPrefix(r.metric, "Heap") {
				taken.of[r.metric] = g.metric(t, r.metric)
			}
		}
		s.mu.Lock()
		s.samples = append(s.samples, taken)
		s.mu.Unlock()
	}
}

// heap returns the minimum heap usage of several garbage collections, because pooled objects need two. It reads the profile as text to
// avoid the compressor of a binary profile.
func (g *gateway) heap(t *testing.T) map[string]float64 {
	t.Helper()
	least := map[string]float64{}
	for range 4 {
		for line := range strings.Lines(g.get(t, "/debug/pprof/heap?gc=1&debug=1")) {
			var name string
			var value float64
			if n, _ := fmt.Sscanf(line, "# %s = %f", &name, &value); n == 2 && strings.HasPrefix(name, "Heap") {
				if before, ok := least[name]; !ok || value < before {
					least[name] = value
				}
			}
		}
	}
	return least
}

// keepSampling takes samples until stop is closed.
func (s *soak) keepSampling(t *testing.T, every time.Duration, stop <-chan struct{}) {
	t.Helper()
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			s.takeSamples(t, int(s.part.Load()), false)
		case <-stop:
			return
		}
	}
}

// keepProfiles saves heap profiles: go test -artifacts -outputdir DIR.
func (s *soak) keepProfiles(t *testing.T, part int) {
	t.Helper()
	for i, g := range s.gateways {
		file := filepath.Join(t.ArtifactDir(), fmt.Sprintf("heap-%d-%d.pprof", i+1, part+1))
		if err := os.WriteFile(file, []byte(g.get(t, "/debug/pprof/heap?gc=1")), 0o600); err != nil {
			t.Error(err)
		}
	}
}

func (s *soak) median(r resource, gateway, part int) (float64, int) {
	var values []float64
	for _, taken := range s.samples {
		if taken.gateway == gateway && taken.part == part && (taken.idle || !r.idle) {
			values = append(values, taken.of[r.metric])
		}
	}
	slices.Sort(values)
	if len(values) == 0 {
		return 0, 0
	}
	return values[len(values)/2], len(values)
}

// compare checks the growth of resource usage from the second part to the last.
func (s *soak) compare(t *testing.T) {
	t.Helper()
	var text strings.Builder
	w := tabwriter.NewWriter(&text, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "gateway\tof\t1st part\t2nd\t3rd\tlast\tgrowth\tsamples a part\t")
	for gateway := range s.gateways {
		for _, r := range resources {
			var medians [parts]float64
			n := 0
			for part := range parts {
				medians[part], n = s.median(r, gateway, part)
			}
			growth := medians[parts-1]/medians[1] - 1
			fmt.Fprintf(w, "%d\t%s\t%.0f\t%.0f\t%.0f\t%.0f\t%+.1f %%\t%d\t\n",
				gateway+1, r.name, medians[0], medians[1], medians[2], medians[3], 100*growth, n)
			report(t, soakRow, fmt.Sprintf("%s of gateway %d, last part to second", r.name, gateway+1),
				fmt.Sprintf("%+.1f %%", 100*growth), fmt.Sprintf("%+.0f %%", 100*r.bound))
			if growth > r.bound || n == 0 {
				t.Errorf("%s of gateway %d grew by %.1f %%: %v, %d samples", r.name, gateway+1, 100*growth, medians, n)
			}
		}
	}
	_ = w.Flush()
	t.Logf("medians:\n%s", text.String())
}
