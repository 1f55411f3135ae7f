package chaos

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"opsgate/internal/testkit"
)

// A poster posts incidents, half of them with an idempotency key, which it repeats until they
// succeed.
type poster struct {
	client *http.Client
	token  string
	again  time.Duration // between the attempts of a post with a key

	mu           sync.Mutex
	acknowledged []bool // by number of the post
}

func title(number int) string { return fmt.Sprintf("Post %d.", number) }

func hasKey(number int) bool { return number%2 == 0 }

func (p *poster) begin() (number int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.acknowledged = append(p.acknowledged, false)
	return len(p.acknowledged) - 1
}

func (p *poster) acknowledge(number int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.acknowledged[number] = true
}

// post posts an incident with the next number, and returns whether it succeeded.
func (p *poster) post(ctx context.Context, gateway string) bool {
	number := p.begin()
	body := fmt.Sprintf(`{"title":%q,"status":"resolved","impact":"minor","message":"m"}`, title(number))
	lines := []string{"Content-Type: application/json"}
	if hasKey(number) {
		lines = append(lines, fmt.Sprint("Idempotency-Key: ", number))
	}
	again := time.NewTicker(p.again)
	defer again.Stop()
	for begun := time.Now(); time.Since(begun) < maxWait; <-again.C {
		a := ask(ctx, p.client, http.MethodPost, gateway+"/v1/incidents", p.token, body, lines...)
		if a.err == nil && a.status == http.StatusOK {
			p.acknowledge(number)
			return true
		}
		if !hasKey(number) {
			return false
		}
	}
	return false
}

// check compares what was posted with the incidents.
func (p *poster) check(t *testing.T, gateway string) {
	t.Helper()
	executed := map[string]int{}
	for cursor := ""; ; {
		var page struct {
			Items      []struct{ Title string }
			NextCursor string
		}
		mustRead(t, p.client, gateway+"/v1/incidents?limit=100&cursor="+cursor, p.token, &page)
		for _, incident := range page.Items {
			executed[incident.Title]++
		}
		if cursor = page.NextCursor; cursor == "" {
			break
		}
	}
	twice, lost, unreported := 0, 0, 0
	for number, acknowledged := range p.acknowledged {
		switch n := executed[title(number)]; {
		case n > 1:
			twice++
		case acknowledged && n == 0 || hasKey(number) && !acknowledged:
			lost++
		case n == 1 && !acknowledged:
			unreported++
		}
	}
	expectNone(t, fmt.Sprintf("of %d posts, half with a key: executed twice", len(p.acknowledged)), twice)
	expectNone(t, "success, but not executed, or with a key, but without a success after retries", lost)
	report(t, "without a key, executed, but the client got an error", unreported, "")
}

// The connections between gateway and service, and between clients and gateway, are cut repeatedly
// while clients post incidents. Both have latency, so that requests are in flight at each cut.
func TestConnectionsCutWhileClientsPost(t *testing.T) {
	parallel(t)
	b := startBackend(t)
	upstream := newLink(t, b.address)
	behind := everyService(b.address)
	behind.incident = upstream.address()
	g := startGateway(t, behind, "upstream_calls: {breaker: {min_requests: 100000}}\n"+unlimited)
	links := []*link{upstream, newLink(t, g.socket())}
	for _, w := range links {
		w.addToxic(t, `{"type": "latency", "attributes": {"latency": 20, "jitter": 10}}`)
	}
	p := &poster{client: newClient(t, nil), token: tokens(t)["full"].Text, again: 50 * time.Millisecond}
	succeeded, done := make(chan struct{}, 1), make(chan struct{})
	var clients sync.WaitGroup
	for range 16 {
		clients.Go(func() {
			for range either(125, 12) {
				if !p.post(t.Context(), "http://"+links[1].address()) {
					sleep(t, p.again) // otherwise all would be sent while the connection is cut
				} else {
					select {
					case succeeded <- struct{}{}:
					default:
					}
				}
			}
		})
	}
	go func() {
		clients.Wait()
		close(done)
	}()
	report(t, "cuts", cutInTurn(t, links, succeeded, done), "")
	upstream.removeToxics(t)
	testkit.Eventually(t, "the service responds", func() bool {
		return strings.HasPrefix(string(ask(t.Context(), p.client, http.MethodGet, g.url+"/v1/incidents", p.token, "").body), `{"items"`)
	})
	p.check(t, g.url)
}

// cutInTurn cuts the links in turn until done, and returns the number of cuts. Between two cuts a
// post succeeds, also if it takes longer than usual.
func cutInTurn(t *testing.T, links []*link, succeeded, done <-chan struct{}) (cuts int) {
	t.Helper()
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
