package chaos

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"text/tabwriter"
	"time"

	"opsgate/backendclient/testkit"
	"opsgate/ratelimit/redisstore/redistest"
)

var (
	soakFor  = flag.Duration("soak", 0, "duration of the soak; 0 for a short run")
	soakSeed = flag.Uint64("soak-seed", 0, "random seed of traffic and faults; 0 for a fixed one in a short run, and a random one in a soak")
)

const (
	// parts of a soak have the same faults, so that they can be compared.
	parts = 4
	// Requests per second of a soak and of a short run.
	soakRate, briefRate = 180, 60
	// redisTimeout is long, so that a busy machine does not cause an outage.
	redisTimeout = 500 * time.Millisecond
)

// soak is a system under load and faults.
type soak struct {
	gateways  []*gateway
	replicas  []*backend
	links     []*link // to the replicas
	redis     *redistest.Server
	redisLink *link
	public    *publicTLS

	tokens  map[string]string
	limited string // id of the token with a low limit
	ids     teamResources
	client  *http.Client
	seed    uint64
	random  *rand.Rand // of faults; clients have their own
	journal *journal
	results results
	again   time.Duration // between the attempts of a request with a key

	pause   sync.RWMutex // read-locked by requests, locked by whilePaused
	part    atomic.Int64
	windows []faultWindow
	revoked time.Duration // maximum time that a revoked token was accepted

	mu      sync.Mutex
	samples []sample
}

// newSoak starts two gateways, three backends behind one DNS name, and Redis, with links between them.
func newSoak(t *testing.T) *soak {
	t.Helper()
	s := &soak{redis: redistest.Start(t), tokens: map[string]string{}, seed: *soakSeed, public: newPublicTLS(t), again: time.Second}
	s.client = s.newClient(0)
	switch {
	case s.seed != 0:
	case *soakFor > 0:
		s.seed = rand.Uint64()
	default:
		s.seed = 1 // reproducible
	}
	t.Logf("-soak-seed %d", s.seed)
	s.random = rand.New(rand.NewPCG(s.seed, 1<<32))
	s.results.responses = map[string]int{}
	t.Cleanup(s.client.CloseIdleConnections)
	for name, token := range tokens(t) {
		s.tokens[name] = token.Text
	}
	s.limited = tokens(t)["read"].ID
	if *soakFor == 0 {
		t.Setenv("OPSGATE_HTTP_READ_HEADER_TIMEOUT", "1m") // a TLS handshake takes long on a busy machine
	}
	s.redisLink = newLink(t, s.redis.Addr())
	var name string
	s.replicas, s.links, name = startBehindLinks(t, 3)
	s.gateways = startPair(t, "opsgate", everyService(name), s.config(1_000_000, ""))
	s.loadResources(t)
	return s
}

// config returns the configuration of both gateways. One token has a low limit.
func (s *soak) config(limit int, more string) string {
	return fmt.Sprintf("rate_limit:\n  store: redis\n  expected_replicas: 2\n  redis: {addresses: [%q], timeout: %v}\n"+
		"  limits: [{requests: %d, per: 1s}]\n  tokens: {%s: {limits: [{requests: 4, per: 1s}]}}\n%s%s",
		s.redisLink.address(), redisTimeout, limit, s.limited, s.public.config(), more)
}

// loadResources lists the resources that can be read.
func (s *soak) loadResources(t *testing.T) {
	t.Helper()
	s.ids = listResources(func(path string, into any) { s.fetch(t, path, into) })
	s.journal = newJournal(slices.Clone(s.ids["/v1/incidents"]))
}

// All kinds of requests and faults for a long time: no resource usage grows, and no guarantee is violated.
func TestSoak(t *testing.T) {
	skipIfShort(t)
	s := newSoak(t)
	ctx, done := context.WithCancel(t.Context())
	defer done()
	var busy sync.WaitGroup
	rate := float64(soakRate)
	if *soakFor == 0 {
		rate = briefRate
	}
	busy.Go(func() { s.traffic(ctx, t, rate) })
	if *soakFor == 0 {
		s.brief(t)
	} else {
		s.long(t, *soakFor)
	}
	done()
	busy.Wait()
	s.checkResults(t)
	if *soakFor > 0 {
		s.compare(t)
	}
}

// brief runs three random faults.
func (s *soak) brief(t *testing.T) {
	t.Helper()
	faults := s.faults(t)
	for _, i := range s.random.Perm(len(faults))[:3] {
		s.run(t, faults[i], 500*time.Millisecond)
	}
}

// long runs each fault once in each part, with time between them.
func (s *soak) long(t *testing.T, duration time.Duration) {
	t.Helper()
	stop := make(chan struct{})
	var sampling sync.WaitGroup
	sampling.Go(func() { s.keepSampling(t, 10*time.Second, stop) })
	begun := time.Now()
	for part := range parts {
		s.part.Store(int64(part))
		faults := s.faults(t)
		s.random.Shuffle(len(faults), func(i, j int) { faults[i], faults[j] = faults[j], faults[i] })
		each := duration / parts / time.Duration(len(faults))
		for i, f := range faults {
			s.run(t, f, min(each/5, 4*time.Second))
			sleep(t, time.Duration(part)*duration/parts+time.Duration(i+1)*each-time.Since(begun))
			s.whilePaused(func() { s.takeSamples(t, part, true) })
		}
		s.keepProfiles(t, part)
	}
	close(stop)
	sampling.Wait()
}

// checkResults checks the guarantees that hold during all faults.
func (s *soak) checkResults(t *testing.T) {
	t.Helper()
	testkit.Eventually(t, "the system is healthy at the end", func() bool { return s.isHealthy(t) })
	found := s.journal.audit(t, s)
	expectNone(t, fmt.Sprintf("writes executed twice, of %d", len(s.journal.writes)), found.twice)
	expectNone(t, "writes acknowledged but lost, or with a key but never acknowledged", found.lost)
	unexpected := slices.DeleteFunc(s.results.failures, func(f failure) bool { return slices.ContainsFunc(s.windows, f.during) })
	for _, f := range unexpected[:min(len(unexpected), 10)] {
		t.Errorf("%s %s: %d, without a fault", f.sent.Format(time.TimeOnly), f.kind, f.status)
	}
	all, _ := s.results.total("")
	report(t, "responses", all, "")
	expectNone(t, "responses with 500, 503 or 504 without a fault", len(unexpected))
	expectNone(t, "requests without a response, or with one that violates the contract", s.results.errorCount)
	for _, message := range s.results.errors {
		t.Error(message)
	}
	var slowest faultWindow
	for _, now := range s.windows {
		if now.end.Sub(now.repaired) > slowest.end.Sub(slowest.repaired) {
			slowest = now
		}
	}
	within(t, fmt.Sprintf("longest recovery from one of %d faults (%s)", len(s.windows), slowest.name),
		slowest.end.Sub(slowest.repaired), 15*time.Second)
	within(t, "longest time that a revoked token was accepted", s.revoked, time.Second)
	expectNone(t, "panics", sum(t, s.gateways, "opsgate_http_panics_total"))
	t.Logf("responses:\n%s", strings.Join(s.results.kinds(), "\n"))
}

// during reports whether a failure overlaps a faultWindow.
func (f failure) during(now faultWindow) bool {
	return !f.done.Before(now.from) && !f.sent.After(now.end)
}

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
			report(t, fmt.Sprintf("%s of gateway %d, last part to second", r.name, gateway+1),
				fmt.Sprintf("%+.1f %%", 100*growth), fmt.Sprintf("%+.0f %%", 100*r.bound))
			if growth > r.bound || n == 0 {
				t.Errorf("%s of gateway %d grew by %.1f %%: %v, %d samples", r.name, gateway+1, 100*growth, medians, n)
			}
		}
	}
	_ = w.Flush()
	t.Logf("medians:\n%s", text.String())
}
