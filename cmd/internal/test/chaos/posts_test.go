package chaos

import (
	"fmt"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"opsgate/cmd/internal/test/testkit"
)

// post is a request that must not be executed twice. Its mark is in the resource that it creates.
type post struct {
	mark, path, body string
	key              string // "" for none

	done     bool // success
	replayed bool // the success was a replayed response
	tries    int
}

// posts returns updates of an incident and new incidents, every second one with a key.
func posts(n int, incident string) []*post {
	all := make([]*post, n)
	for i := range all {
		p := &post{mark: fmt.Sprintf("post %d", i)}
		if i%2 == 0 {
			p.key = fmt.Sprintf("key-%d", i)
		}
		p.path, p.body = "/v1/incidents", `{"title":"`+p.mark+`","status":"resolved","impact":"none","message":"m"}`
		if i%4 < 2 {
			p.path, p.body = "/v1/incidents/"+incident+"/updates", `{"status":"identified","message":"`+p.mark+`"}`
		}
		all[i] = p
	}
	return all
}

// poster sends posts with a key until they succeed, and others once.
type poster struct {
	client     *http.Client
	url, token string
}

const maxTries = 200

func (c *poster) send(t *testing.T, p *post) {
	t.Helper()
	for p.tries = 1; !c.try(t, p) && p.key != "" && p.tries < maxTries; p.tries++ {
		sleep(t, 50*time.Millisecond)
	}
	if !p.done {
		sleep(t, 50*time.Millisecond) // otherwise all would be sent while the connection is cut
	}
}

func (c *poster) try(t *testing.T, p *post) (done bool) {
	t.Helper()
	var key []string
	if p.key != "" {
		key = []string{"Idempotency-Key: " + p.key}
	}
	a := ask(t.Context(), c.client, http.MethodPost, c.url+p.path, c.token, p.body, key...)
	if a.err != nil {
		return false
	}
	p.done = a.status == http.StatusOK
	p.replayed = a.header.Get("Idempotent-Replayed") != ""
	return p.done
}

// get reads JSON.
func (c *poster) get(t *testing.T, path string, into any) {
	t.Helper()
	mustRead(t, c.client, c.url+path, c.token, into)
}

// countMarks counts the marks in all incidents and in the updates of one.
func (c *poster) countMarks(t *testing.T, incident string) map[string]int {
	t.Helper()
	times := map[string]int{}
	var one struct{ Updates []struct{ Message string } }
	c.get(t, "/v1/incidents/"+incident, &one)
	for _, update := range one.Updates {
		times[update.Message]++
	}
	for next := "/v1/incidents?limit=100"; next != ""; {
		var page struct {
			Items      []struct{ Title string }
			NextCursor *string
		}
		c.get(t, next, &page)
		next = ""
		if page.NextCursor != nil {
			next = "/v1/incidents?limit=100&cursor=" + url.QueryEscape(*page.NextCursor)
		}
		for _, i := range page.Items {
			times[i.Title]++
		}
	}
	return times
}

// first returns the id of the newest incident.
func (c *poster) first(t *testing.T) string {
	t.Helper()
	var page struct{ Items []struct{ ID string } }
	c.get(t, "/v1/incidents?limit=1", &page)
	return page.Items[0].ID
}

// The connections between gateway and service, and between clients and gateway, are cut repeatedly while clients post. Both have
// latency, so that requests are in flight at each cut.
func TestConnectionsCutWhileClientsPost(t *testing.T) {
	parallel(t)
	b := startBackend(t)
	upstream := newLink(t, b.address)
	s := everyService(b.address)
	s.incident = upstream.address()
	g := startGateway(t, s, "upstream_calls: {breaker: {min_requests: 100000}}\n"+unlimited)
	before := newLink(t, g.socket())
	direct := &poster{client: http.DefaultClient, url: g.url, token: texts(t, "full")["full"]}
	incident := direct.first(t)
	all := posts(either(2000, 200), incident)
	for _, w := range []*link{upstream, before} {
		w.addToxic(t, `{"type": "latency", "attributes": {"latency": 20, "jitter": 10}}`)
	}
	transport := &http.Transport{MaxIdleConnsPerHost: mostClients}
	cuts := sendWhile(t, &poster{&http.Client{Transport: transport, Timeout: maxWait}, "http://" + before.address(), direct.token},
		all, []*link{upstream, before})
	transport.CloseIdleConnections()
	upstream.removeToxics(t)
	testkit.Eventually(t, "the service responds", func() bool {
		return fetch(t.Context(), http.DefaultClient, g.url+"/v1/incidents", direct.token).status == http.StatusOK
	})
	checkPosts(t, all, direct.countMarks(t, incident), cuts)
}

// sendWhile sends all posts while it cuts the links in turn, and returns the number of cuts.
func sendWhile(t *testing.T, c *poster, all []*post, links []*link) (cuts int) {
	t.Helper()
	var next atomic.Int64
	var clients sync.WaitGroup
	for range 16 {
		clients.Go(func() {
			for i := next.Add(1) - 1; int(i) < len(all); i = next.Add(1) - 1 {
				c.send(t, all[i])
			}
		})
	}
	done := make(chan struct{})
	go func() {
		clients.Wait()
		close(done)
	}()
	for {
		select {
		case <-done:
			return cuts
		case <-time.After(150 * time.Millisecond):
			w := links[cuts%len(links)]
			w.cut()
			sleep(t, 10*time.Millisecond)
			w.reconnect(t)
			cuts++
		}
	}
}

// checkPosts compares the responses with the executed posts.
func checkPosts(t *testing.T, all []*post, times map[string]int, cuts int) {
	t.Helper()
	var twice, lost, unfinished, unreported, replayed, retried int
	for _, p := range all {
		n := times[p.mark]
		switch {
		case n > 1:
			twice++
		case p.done && n == 0:
			lost++
		case p.key != "" && !p.done:
			unfinished++
		case !p.done && n == 1:
			unreported++
		}
		if p.replayed {
			replayed++
		}
		if p.tries > 1 {
			retried++
		}
	}
	expectNone(t, "14", fmt.Sprintf("of %d posts with %d cuts, half with a key: executed twice", len(all), cuts), twice)
	expectNone(t, "14", "success, but not executed", lost)
	expectNone(t, "14", fmt.Sprintf("with a key, but without a success after retries (%d retried)", retried), unfinished)
	report(t, "14", "with a key, executed by an attempt whose response was lost", replayed, "")
	report(t, "14", "without a key, executed, but the client got an error", unreported, "")
	if *full && (replayed == 0 || unreported == 0) {
		t.Error("no response was lost by the cuts")
	}
}
