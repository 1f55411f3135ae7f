package chaos

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"opsgate/internal/testkit"
	"opsgate/ratelimit/redisstore/redistest"
)

var (
	soakFor  = flag.Duration("soak", 0, "duration of the soak; 0 for a short run")
	soakSeed = flag.Uint64("soak-seed", 0, "random seed of traffic and faults; 0 for a fixed one in a short run, and a random one in a soak")
)

const (
	// parts of a soak have the same faults, so that they can be compared.
	parts = 4
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

	limited string // id of the token with a low limit
	random  *rand.Rand
	reads   load
	posts   *poster

	responses responses // of reads
	windows   []faultWindow
	samples   []sample
}

// newSoak starts two gateways, three backends behind one DNS name, and Redis, with links between
// them.
func newSoak(t *testing.T) *soak {
	t.Helper()
	s := &soak{redis: redistest.Start(t), public: newPublicTLS(t), limited: tokens(t)["read"].ID}
	seed := *soakSeed
	switch {
	case seed != 0:
	case *soakFor > 0:
		seed = rand.Uint64()
	default:
		seed = 1                                           // reproducible
		t.Setenv("OPSGATE_HTTP_READ_HEADER_TIMEOUT", "1m") // a TLS handshake takes long on a busy machine
	}
	t.Logf("-soak-seed %d", seed)
	s.random = rand.New(rand.NewPCG(seed, 1<<32))
	s.redisLink = newLink(t, s.redis.Addr())
	var name string
	s.replicas, s.links, name = startBehindLinks(t, 3)
	s.gateways = startPair(t, "opsgate", everyService(name), s.config(1_000_000, ""))
	client := newClient(t, s.public.roots())
	s.reads = load{
		gateways: s.gateways, tokens: texts(t, "full", "read"), client: client, rate: either(180.0, 60), clients: mostClients,
		paths: append(reads(), readable()...),
	}
	resources := listResources(func(path string, into any) { mustRead(t, client, s.gateways[0].url+path, s.reads.tokens["full"], into) })
	for i, path := range s.reads.paths {
		s.reads.paths[i] = resources.fill(path, first)
	}
	s.posts = &poster{client: client, token: s.reads.tokens["full"], again: time.Second}
	return s
}

// config returns the configuration of both gateways. One token has a low limit.
func (s *soak) config(limit int, more string) string {
	return fmt.Sprintf("rate_limit:\n  store: redis\n  expected_replicas: 2\n  redis: {addresses: [%q], timeout: %v}\n"+
		"  limits: [{requests: %d, per: 1s}]\n  tokens: {%s: {limits: [{requests: 4, per: 1s}]}}\n%s%s",
		s.redisLink.address(), redisTimeout, limit, s.limited, s.public.config(), more)
}

// All faults for a long time: no resource usage grows, and no guarantee is violated. The short form
// has three random faults.
func TestSoak(t *testing.T) {
	skipIfShort(t)
	s := newSoak(t)
	if *soakFor > 0 {
		s.long(t, *soakFor)
		s.compare(t)
	} else {
		faults := s.faults(t)
		s.underLoad(t, func() {
			for _, i := range s.random.Perm(len(faults))[:3] {
				s.run(t, faults[i], 500*time.Millisecond)
			}
		})
	}
	s.checkResults(t)
}

// underLoad sends reads and posts during do.
func (s *soak) underLoad(t *testing.T, do func()) {
	t.Helper()
	end := s.reads.start(t)
	ctx, stop := context.WithCancel(t.Context())
	var posting sync.WaitGroup
	for i := range 4 {
		posting.Go(func() {
			for ctx.Err() == nil {
				s.posts.post(t.Context(), s.gateways[i%len(s.gateways)].url)
				sleep(t, time.Second/2)
			}
		})
	}
	do()
	stop()
	posting.Wait()
	s.responses = append(s.responses, end()...)
}

// long runs each fault once in each part, with time between them, and takes a sample of both
// gateways after each.
func (s *soak) long(t *testing.T, duration time.Duration) {
	t.Helper()
	begun := time.Now()
	for part := range parts {
		faults := s.faults(t)
		s.random.Shuffle(len(faults), func(i, j int) { faults[i], faults[j] = faults[j], faults[i] })
		each := duration / parts / time.Duration(len(faults))
		for i, f := range faults {
			s.underLoad(t, func() {
				s.run(t, f, min(each/5, 4*time.Second))
				sleep(t, time.Duration(part)*duration/parts+time.Duration(i+1)*each-time.Since(begun))
			})
			for i, g := range s.gateways {
				s.samples = append(s.samples, sample{part: part, gateway: i, of: g.usage(t)})
			}
		}
	}
}

// checkResults checks the guarantees that hold during all faults.
func (s *soak) checkResults(t *testing.T) {
	t.Helper()
	testkit.Eventually(t, "the system is healthy at the end", func() bool { return s.isHealthy(t) })
	s.posts.check(t, s.gateways[0].url)
	unexpected := slices.DeleteFunc(s.responses.failed(), func(a response) bool {
		ours := []int{http.StatusInternalServerError, http.StatusServiceUnavailable, http.StatusGatewayTimeout}
		return slices.Contains(ours, a.status) && slices.ContainsFunc(s.windows, func(w faultWindow) bool {
			return !a.answered().Before(w.from) && !a.sent.After(w.end)
		})
	})
	expectNone(t, fmt.Sprintf("of %d reads, without a response, or with 500, 503 or 504 without a fault", len(s.responses)), len(unexpected))
	for _, a := range unexpected[:min(len(unexpected), 10)] {
		t.Errorf("%s %s: %d %v", a.sent.Format(time.TimeOnly), a.path, a.status, a.err)
	}
	var slowest faultWindow
	for _, now := range s.windows {
		if now.end.Sub(now.repaired) > slowest.end.Sub(slowest.repaired) {
			slowest = now
		}
	}
	within(t, fmt.Sprintf("longest recovery from one of %d faults (%s)", len(s.windows), slowest.name),
		slowest.end.Sub(slowest.repaired), 15*time.Second)
	expectNone(t, "panics", sum(t, s.gateways, "opsgate_http_panics_total"))
}

// sample has the resource usage of one gateway at one moment, without requests.
type sample struct {
	part    int // of the soak
	gateway int
	of      map[string]float64
}

// resources must not grow by more than their bounds. Heap in use includes fragmentation after
// bursts. Resident memory is mostly garbage and varies more.
var resources = []struct {
	name, metric string
	bound        float64
}{
	{"heap, bytes", "go_memstats_heap_alloc_bytes", .05},
	{"heap in use, bytes", "go_memstats_heap_inuse_bytes", .10},
	{"resident, bytes", "process_resident_memory_bytes", .10},
	{"goroutines", "go_goroutines", .05},
	{"file descriptors", "process_open_fds", .05},
}

// usage returns the usage of all resources, after garbage collections.
func (g *gateway) usage(t *testing.T) map[string]float64 {
	t.Helper()
	for range 2 { // the first one empties pools
		g.get(t, "/debug/pprof/heap?gc=1")
	}
	of := map[string]float64{}
	for _, r := range resources {
		of[r.metric] = g.metric(t, r.metric)
	}
	return of
}

// median returns the median of a metric of a gateway in a part.
func (s *soak) median(metric string, gateway, part int) float64 {
	var values []float64
	for _, taken := range s.samples {
		if taken.gateway == gateway && taken.part == part {
			values = append(values, taken.of[metric])
		}
	}
	slices.Sort(values)
	return values[len(values)/2]
}

// compare checks the growth of resource usage from the second part to the last.
func (s *soak) compare(t *testing.T) {
	t.Helper()
	for gateway := range s.gateways {
		for _, r := range resources {
			before, after := s.median(r.metric, gateway, 1), s.median(r.metric, gateway, parts-1)
			growth := after/before - 1
			report(t, fmt.Sprintf("%s of gateway %d, %.0f in the second part", r.name, gateway+1, before),
				fmt.Sprintf("%+.1f %%", 100*growth), fmt.Sprintf("%+.0f %%", 100*r.bound))
			if growth > r.bound {
				t.Errorf("%s of gateway %d grew by %.1f %%: %.0f, %.0f", r.name, gateway+1, 100*growth, before, after)
			}
		}
	}
}
