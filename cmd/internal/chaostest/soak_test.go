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
	soakFor  = flag.Duration("soak", 0, "how long the soak lasts; without, it shows that it works")
	soakSeed = flag.Uint64("soak-seed", 0, "what the soak's traffic and the order of its faults are made of; 0 for one that is always the same, and any where it soaks")
)

const (
	// soaked is the row of what stands beside the table.
	soaked = "soak"
	// parts of a soak have the same faults, so that they can be compared.
	parts = 4
	// A soak shows a client's mistakes at work, not how much a gateway can take.
	soakRate, briefRate = 180, 60
	// redisPatience is how long Redis may take: a machine that does other things too is no outage.
	redisPatience = 500 * time.Millisecond
)

// A soak is a system that is used and broken at the same time, for long.
type soak struct {
	gateways  []*gateway
	replicas  []*backend
	wires     []*wire // to each of them
	redis     *redistest.Server
	redisWire *wire
	public    *publicTLS

	tokens  map[string]string
	pressed string // the id of the one with little to spend
	exists  teamResources
	client  *http.Client
	seed    uint64
	random  *rand.Rand // of faults; visitors have their own
	book    *book
	tally   tally

	calm     sync.RWMutex // held to read by visits, and to write by who wants to look while there are none
	part     atomic.Int64
	troubles []trouble
	revoked  time.Duration // the longest that a revoked token was taken

	mu      sync.Mutex
	samples []sample
}

// newSoak starts two gateways, three backends behind one name, and Redis, with wires between them.
func newSoak(t *testing.T) *soak {
	t.Helper()
	s := &soak{redis: redistest.Start(t), tokens: map[string]string{}, seed: *soakSeed, public: newPublicTLS(t)}
	s.client = s.newVisitor(0)
	switch {
	case s.seed != 0:
	case *soakFor > 0:
		s.seed = rand.Uint64()
	default:
		s.seed = 1 // who tests other things is to have the same test each time
	}
	t.Logf("-soak-seed %d", s.seed)
	s.random = rand.New(rand.NewPCG(s.seed, 1<<32))
	s.tally.answers = map[string]int{}
	t.Cleanup(s.client.CloseIdleConnections)
	for name, token := range tokens(t) {
		s.tokens[name] = token.Text
	}
	s.pressed = tokens(t)["read"].ID
	s.redisWire = newWire(t, s.redis.Addr())
	var name string
	s.replicas, s.wires, name = startBehindWires(t, 3)
	for range 2 {
		s.gateways = append(s.gateways, launchGateway(t, everyService(name), s.config(1_000_000, "")))
	}
	for _, g := range s.gateways {
		g.awaitReady(t)
	}
	s.learn(t)
	return s
}

// config is that of both gateways. One token gets less than it asks for.
func (s *soak) config(limit int, more string) string {
	return fmt.Sprintf("rate_limit:\n  store: redis\n  expected_replicas: 2\n  redis: {addresses: [%q], timeout: %v}\n"+
		"  limits: [{requests: %d, per: 1s}]\n  tokens: {%s: {limits: [{requests: 4, per: 1s}]}}\n%s%s",
		s.redisWire.address(), redisPatience, limit, s.pressed, s.public.config(), more)
}

// learn lists the resources that can be read.
func (s *soak) learn(t *testing.T) {
	t.Helper()
	s.exists = listResources(func(path string, into any) { s.fetch(t, path, into) })
	s.book = newBook(slices.Clone(s.exists["/v1/incidents"]))
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
	s.verdict(t)
	if *soakFor > 0 {
		s.compare(t)
	}
}

// brief has some faults happen, for as long as it takes to notice them.
func (s *soak) brief(t *testing.T) {
	t.Helper()
	deck := s.faults(t)
	for _, i := range s.random.Perm(len(deck))[:3] {
		s.suffer(t, deck[i], 500*time.Millisecond)
	}
}

// long has every fault happen once in each part, and leaves time between them.
func (s *soak) long(t *testing.T, lasts time.Duration) {
	t.Helper()
	stop := make(chan struct{})
	var sampling sync.WaitGroup
	sampling.Go(func() { s.keepSampling(t, 10*time.Second, stop) })
	begun := time.Now()
	for part := range parts {
		s.part.Store(int64(part))
		deck := s.faults(t)
		s.random.Shuffle(len(deck), func(i, j int) { deck[i], deck[j] = deck[j], deck[i] })
		each := lasts / parts / time.Duration(len(deck))
		for i, f := range deck {
			s.suffer(t, f, min(each/5, 4*time.Second))
			pass(t, time.Duration(part)*lasts/parts+time.Duration(i+1)*each-time.Since(begun))
			s.whileCalm(func() { s.takeSamples(t, part, true) })
		}
		s.keepProfiles(t, part)
	}
	close(stop)
	sampling.Wait()
}

// verdict holds what must be true whatever broke.
func (s *soak) verdict(t *testing.T) {
	t.Helper()
	eventually(t, "all is well at the end", func() bool { return s.isWell(t) })
	lost, twice := s.book.audit(t, s)
	none(t, soaked, fmt.Sprintf("writes executed twice, of %d", len(s.book.written)), twice)
	none(t, soaked, "writes acknowledged and lost, or never acknowledged with a key", lost)
	unexpected := slices.DeleteFunc(s.tally.failures, func(f failure) bool { return slices.ContainsFunc(s.troubles, f.during) })
	for _, f := range unexpected[:min(len(unexpected), 10)] {
		t.Errorf("%s %s: %d, while nothing was broken", f.sent.Format(time.TimeOnly), f.kind, f.status)
	}
	all, _ := s.tally.total("")
	note(t, soaked, "answers", all, "")
	none(t, soaked, "answers of 500, 503 or 504 while nothing was broken", len(unexpected))
	none(t, soaked, "requests without an answer, or with one against the contract", s.tally.wrongs)
	for _, complaint := range s.tally.wrong {
		t.Error(complaint)
	}
	var slowest trouble
	for _, now := range s.troubles {
		if now.end.Sub(now.mended) > slowest.end.Sub(slowest.mended) {
			slowest = now
		}
	}
	within(t, soaked, fmt.Sprintf("longest until all was well after one of %d faults (%s)", len(s.troubles), slowest.name),
		slowest.end.Sub(slowest.mended), 15*time.Second)
	within(t, soaked, "longest that a revoked token was taken", s.revoked, time.Second)
	none(t, soaked, "panics", sum(t, s.gateways, "opsgate_http_panics_total"))
	t.Logf("answers:\n%s", strings.Join(s.tally.kinds(), "\n"))
}

// during says whether a trouble explains a failure.
func (f failure) during(now trouble) bool { return !f.done.Before(now.from) && !f.sent.After(now.end) }
