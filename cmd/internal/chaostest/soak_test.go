package chaostest

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"opsgate/ratelimit/redisstore/redistest"
)

var (
	soakFor  = flag.Duration("soak", 0, "how long the soak duration; without, it shows that it works")
	soakSeed = flag.Uint64("soak-seed", 0, "what the soak's traffic and the order of its faults are made of; 0 for one that is always the same, and any where it soaks")
)

const (
	// soaked is the row of what stands beside the table.
	soakRow = "soak"
	// parts of a soak have the same faults, so that they can be compared.
	parts = 4
	// A soak shows a client's mistakes at work, not how much a gateway can take.
	soakRate, briefRate = 180, 60
	// redisTimeout is how long Redis may take: a machine that does other things too is no outage.
	redisTimeout = 500 * time.Millisecond
)

// A soak is a system that is used and broken at the same time, for long.
type soak struct {
	gateways  []*gateway
	replicas  []*backend
	links     []*link // to each of them
	redis     *redistest.Server
	redisLink *link
	public    *publicTLS

	tokens  map[string]string
	limited string // the id of the one with little to spend
	ids     teamResources
	client  *http.Client
	seed    uint64
	random  *rand.Rand // of faults; clients have their own
	journal *journal
	results results

	pause   sync.RWMutex // held to read by visits, and to write by who wants to look while there are none
	part    atomic.Int64
	windows []faultWindow
	revoked time.Duration // the longest that a revoked token was taken

	mu      sync.Mutex
	samples []sample
}

// newSoak starts two gateways, three backends behind one name, and Redis, with links between them.
func newSoak(t *testing.T) *soak {
	t.Helper()
	s := &soak{redis: redistest.Start(t), tokens: map[string]string{}, seed: *soakSeed, public: newPublicTLS(t)}
	s.client = s.newClient(0)
	switch {
	case s.seed != 0:
	case *soakFor > 0:
		s.seed = rand.Uint64()
	default:
		s.seed = 1 // who tests other things is to have the same test each time
	}
	t.Logf("-soak-seed %d", s.seed)
	s.random = rand.New(rand.NewPCG(s.seed, 1<<32))
	s.results.answers = map[string]int{}
	t.Cleanup(s.client.CloseIdleConnections)
	for name, token := range tokens(t) {
		s.tokens[name] = token.Text
	}
	s.limited = tokens(t)["read"].ID
	s.redisLink = newLink(t, s.redis.Addr())
	var name string
	s.replicas, s.links, name = startBehindLinks(t, 3)
	for range 2 {
		s.gateways = append(s.gateways, launchGateway(t, everyService(name), s.config(1_000_000, "")))
	}
	for _, g := range s.gateways {
		g.waitUntilReady(t)
	}
	s.loadResources(t)
	return s
}

// config is that of both gateways. One token gets less than it asks for.
func (s *soak) config(limit int, more string) string {
	return fmt.Sprintf("rate_limit:\n  store: redis\n  expected_replicas: 2\n  redis: {addresses: [%q], timeout: %v}\n"+
		"  limits: [{requests: %d, per: 1s}]\n  tokens: {%s: {limits: [{requests: 4, per: 1s}]}}\n%s%s",
		s.redisLink.address(), redisTimeout, limit, s.limited, s.public.config(), more)
}

// learn lists the resources that can be read.
func (s *soak) loadResources(t *testing.T) {
	t.Helper()
	s.ids = listResources(func(path string, into any) { s.fetch(t, path, into) })
	s.journal = newJournal(slices.Clone(s.ids["/v1/incidents"]))
}

// Everything that a client does, and everything that breaks, for a long time: what it must not do is add up.
func TestSoak(t *testing.T) {
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

// brief has some faults happen, for as long as it takes to notice them.
func (s *soak) brief(t *testing.T) {
	t.Helper()
	faults := s.faults(t)
	for _, i := range s.random.Perm(len(faults))[:3] {
		s.run(t, faults[i], 500*time.Millisecond)
	}
}

// long has every fault happen once in each part, and leaves time between them.
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

// verdict holds what must be true whatever broke.
func (s *soak) checkResults(t *testing.T) {
	t.Helper()
	eventually(t, "all is well at the end", func() bool { return s.isHealthy(t) })
	lost, twice := s.journal.audit(t, s)
	expectNone(t, soakRow, fmt.Sprintf("writes executed twice, of %d", len(s.journal.written)), twice)
	expectNone(t, soakRow, "writes acknowledged and lost, or never acknowledged with a key", lost)
	unexpected := slices.DeleteFunc(s.results.failures, func(f failure) bool { return slices.ContainsFunc(s.windows, f.during) })
	for _, f := range unexpected[:min(len(unexpected), 10)] {
		t.Errorf("%s %s: %d, while nothing was broken", f.sent.Format(time.TimeOnly), f.kind, f.status)
	}
	all, _ := s.results.total("")
	report(t, soakRow, "answers", all, "")
	expectNone(t, soakRow, "answers of 500, 503 or 504 while nothing was broken", len(unexpected))
	expectNone(t, soakRow, "requests without an answer, or with one against the contract", s.results.errorCount)
	for _, complaint := range s.results.errors {
		t.Error(complaint)
	}
	var slowest faultWindow
	for _, now := range s.windows {
		if now.end.Sub(now.repaired) > slowest.end.Sub(slowest.repaired) {
			slowest = now
		}
	}
	within(t, soakRow, fmt.Sprintf("longest until all was well after one of %d faults (%s)", len(s.windows), slowest.name),
		slowest.end.Sub(slowest.repaired), 15*time.Second)
	within(t, soakRow, "longest that a revoked token was taken", s.revoked, time.Second)
	expectNone(t, soakRow, "panics", sum(t, s.gateways, "opsgate_http_panics_total"))
	t.Logf("answers:\n%s", strings.Join(s.results.kinds(), "\n"))
}

// during says whether a faultWindow explains a failure.
func (f failure) during(now faultWindow) bool {
	return !f.done.Before(now.from) && !f.sent.After(now.end)
}
