package docs

import (
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"opsgate/backendclient/testkit"
)

// A walk checks a program that prints all incidents.
type walk struct{ breakCursor atomic.Bool }

// start starts a proxy that changes one cursor on demand.
func (c *walk) start(t *testing.T, s system) string {
	t.Helper()
	_, url := newFaultyProxy(t, s, func(_ int, r *http.Request) fault {
		if query := r.URL.Query(); query.Has("cursor") && c.breakCursor.CompareAndSwap(true, false) {
			query.Set("cursor", "unknown")
			r.URL.RawQuery = query.Encode()
		}
		return fault{}
	})
	return url
}

func (c *walk) check(p *program) {
	c.compare(p)
	c.breakCursor.Store(true)
	if filepath.Ext(p.file) == ".sh" {
		p.wantContains(p.fails(p.system.Tokens["incidents:read"]), "the cursor was not recognized")
	} else {
		c.compare(p)
	}
	if c.breakCursor.Load() {
		p.Error("the program sent no cursor")
	}
}

// compare compares what the program prints with the incidents of the team.
func (c *walk) compare(p *program) {
	p.Helper()
	want := p.system.incidents(p.T)
	if len(want) < 160 {
		p.Fatalf("only %d incidents", len(want))
	}
	got := firstWords(p.run("incidents:read"))
	if !slices.Equal(got, want) {
		p.Errorf("got %d incidents, want %d, or in another order", len(got), len(want))
	}
}

// A deprecation checks a program that looks for deprecated operations.
type deprecation struct{ announced atomic.Bool }

// start starts a proxy that marks one operation as deprecated once that is announced.
func (c *deprecation) start(t *testing.T, s system) string {
	t.Helper()
	_, url := newFaultyProxy(t, s, func(_ int, r *http.Request) fault {
		if c.announced.Load() && r.URL.Path == "/v1/servers" {
			return fault{header: http.Header{"Deprecation": {"@1798761600"}, "Sunset": {"Sat, 01 Jan 2028 00:00:00 GMT"}}}
		}
		return fault{}
	})
	return url
}

func (c *deprecation) check(p *program) {
	if got := p.run("full"); got != "no operation that we use is deprecated\n" {
		p.Errorf("got %q", got)
	}
	c.announced.Store(true)
	if got := p.run("full"); got != "/v1/servers will go: Sunset: Sat, 01 Jan 2028 00:00:00 GMT\n" {
		p.Errorf("got %q", got)
	}
}

// A resilience checks a client that sends 20 reads and opens one incident, through a proxy with faults.
type resilience struct{ proxy *faultyProxy }

// start starts the proxy. Responses to POST are lost once, and once cut in half.
func (c *resilience) start(t *testing.T, s system) (url string) {
	t.Helper()
	posts := 0
	c.proxy, url = newFaultyProxy(t, s, func(n int, r *http.Request) fault {
		if r.Method == http.MethodPost {
			posts++
			return fault{cut: posts == 1, half: posts == 2}
		}
		switch n {
		case 3:
			return fault{status: http.StatusTooManyRequests, code: "rate_limited", retryAfter: 2}
		case 6:
			return fault{status: http.StatusServiceUnavailable, code: "unavailable", retryAfter: 1}
		case 9:
			return fault{status: http.StatusGatewayTimeout, code: "timeout"}
		case 12:
			return fault{cut: true}
		}
		return fault{half: n == 15}
	})
	return url
}

// faultyReads starts a proxy that disturbs three reads.
func faultyReads(t *testing.T, s system) string {
	t.Helper()
	_, url := newFaultyProxy(t, s, func(n int, _ *http.Request) fault {
		if n == 2 {
			return fault{status: http.StatusGatewayTimeout, code: "timeout"}
		}
		return fault{cut: n == 4, half: n == 6}
	})
	return url
}

// faultyPosts starts a proxy that refuses the first request, as one whose key is in progress, loses the response to the second,
// and cuts that to the third in half.
func faultyPosts(t *testing.T, s system) string {
	t.Helper()
	_, url := newFaultyProxy(t, s, func(n int, _ *http.Request) fault {
		if n == 1 {
			return fault{status: http.StatusConflict, code: "conflict", retryAfter: 1}
		}
		return fault{cut: n == 2, half: n == 3}
	})
	return url
}

// checkTypes compiles a program with strict types.
func checkTypes(t *testing.T, file string, flags ...string) {
	t.Helper()
	run(t, filepath.Dir(file), testkit.Find(t, "node"), append([]string{
		testkit.Find(t, npm+"/typescript/bin/tsc"), "--noEmit", "--strict", "--target", "es2023", "--module", "nodenext",
		"--typeRoots", testkit.Find(t, npm+"/@types"), "--types", "node", file,
	}, flags...)...)
}

// check runs the program and checks the requests that the proxy received.
func (c *resilience) check(p *program) {
	token := map[string]string{".py": "full", ".mts": "other_team", ".go": "incidents:write"}[filepath.Ext(p.file)]
	before := time.Now()
	output := lines(p.run(token))
	if filepath.Ext(p.file) == ".mts" {
		checkTypes(p.T, p.file)
	}
	if len(output) != 21 || !strings.HasPrefix(output[19], "20 ") {
		p.Errorf("got %d lines:\n%s", len(output), strings.Join(output, "\n"))
	}
	p.Logf("%d requests in %v", len(c.proxy.requests), time.Since(before).Round(time.Millisecond))
	var keys []string
	denied := 0
	for i, r := range c.proxy.requests {
		if r.method == http.MethodPost {
			keys = append(keys, r.key)
		}
		afterLost := i > 0 && c.proxy.requests[i-1].lost // the client did not see its RateLimit
		if r.status == http.StatusTooManyRequests && !afterLost {
			denied++
		}
		const early = 10 * time.Millisecond // timers of Node may end a millisecond too early
		if r.retryAfter > 0 && i+1 < len(c.proxy.requests) && c.proxy.requests[i+1].at.Sub(r.at) < r.retryAfter-early {
			p.Errorf("request %d was repeated %v after a %d with Retry-After %v", i+1, c.proxy.requests[i+1].at.Sub(r.at), r.status, r.retryAfter)
		}
	}
	if denied != 1 {
		p.Errorf("%d responses were a 429; the proxy sent one, and a paced client gets no other but after a lost response", denied)
	}
	if len(keys) != 3 || len(slices.Compact(keys)) != 1 || keys[0] != "test-of-"+filepath.Base(p.file) || !c.proxy.requests[len(c.proxy.requests)-1].idempotentBack {
		p.Errorf("the POST was not repeated with one key: %q", keys)
	}
}
