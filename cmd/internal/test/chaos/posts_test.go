package chaos

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"opsgate/backendclient/testkit"
	"opsgate/gateway/openapi/openapitest"
)

// The connections between gateway and service, and between clients and gateway, are cut repeatedly while clients post incidents and
// updates, half of them with an idempotency key. Both have latency, so that requests are in flight at each cut.
func TestConnectionsCutWhileClientsPost(t *testing.T) {
	parallel(t)
	b := startBackend(t)
	upstream := newLink(t, b.address)
	behind := everyService(b.address)
	behind.incident = upstream.address()
	g := startGateway(t, behind, "upstream_calls: {breaker: {min_requests: 100000}}\n"+unlimited)
	before := newLink(t, g.socket())
	s := &soak{gateways: []*gateway{g}, client: newClient(t, nil), tokens: texts(t, "full"), again: 50 * time.Millisecond}
	s.results.responses = map[string]int{}
	s.journal = newJournal(resourcesOf(t, g)["/v1/incidents"])
	for _, w := range []*link{upstream, before} {
		w.addToxic(t, `{"type": "latency", "attributes": {"latency": 20, "jitter": 10}}`)
	}
	posts := either(2000, 200)
	cuts := s.postWhile(t, posts, &gateway{url: "http://" + before.address()}, []*link{upstream, before})
	upstream.removeToxics(t)
	testkit.Eventually(t, "the service responds", func() bool {
		return fetch(t.Context(), s.client, g.url+"/v1/incidents", s.tokens["full"]).status == http.StatusOK
	})
	found := s.journal.audit(t, s)
	expectNone(t, fmt.Sprintf("of %d posts with %d cuts, half with a key: executed twice", posts, cuts), found.twice)
	expectNone(t, "success, but not executed, or with a key, but without a success after retries", found.lost)
	report(t, "without a key, executed, but the client got an error", found.unreported, "")
	if *full && found.unreported == 0 {
		t.Error("no response was lost by the cuts")
	}
}

// postWhile posts through a gateway while it cuts the links in turn, and returns the number of cuts. Between two cuts a post succeeds, also
// if it takes longer than usual.
func (s *soak) postWhile(t *testing.T, posts int, through *gateway, links []*link) (cuts int) {
	t.Helper()
	validator := openapitest.New(t)
	var sent atomic.Int64
	var clients sync.WaitGroup
	succeeded := make(chan struct{}, 1)
	for number := range 16 {
		clients.Go(func() {
			for random := rand.New(rand.NewPCG(14, uint64(number))); sent.Add(1) <= int64(posts); {
				post := s.create
				if random.IntN(2) == 0 {
					post = s.update
				}
				if a := s.make(t.Context(), s.client, through, post(random), validator); a.status != http.StatusOK {
					sleep(t, s.again) // otherwise all would be sent while the connection is cut
					continue
				}
				select {
				case succeeded <- struct{}{}:
				default:
				}
			}
		})
	}
	done := make(chan struct{})
	go func() {
		clients.Wait()
		close(done)
	}()
	for ; ; cuts++ {
		sleep(t, 150*time.Millisecond)
		select {
		case <-done:
			return cuts
		case <-succeeded:
		}
		w := links[cuts%len(links)]
		w.cut()
		sleep(t, 10*time.Millisecond)
		w.reconnect(t)
	}
}
