package command_test

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"opsgate/internal/testkit"
)

// One process sends many requests, several at a time, to a gateway with small limits: none is
// denied, because it waits before.
func TestNoRequestOfAPacedProcessIsDenied(t *testing.T) {
	t.Parallel()
	s := startSystem(t, "rate_limit: {limits: [{name: short, requests: 6, per: 1s}, {name: long, requests: 30, per: 5s}]}\n")
	to, err := url.Parse(s.BaseURL)
	testkit.Must(t, err)
	var answered, denied atomic.Int32
	proxy := httputil.NewSingleHostReverseProxy(to)
	proxy.ModifyResponse = func(r *http.Response) error {
		answered.Add(1)
		if r.StatusCode == http.StatusTooManyRequests {
			denied.Add(1)
		}
		return nil
	}
	server := httptest.NewServer(proxy)
	t.Cleanup(server.Close)
	agent := user{url: server.URL, token: s.Tokens["full"]}.agent(t, "--max-wait", "1m")
	var all sync.WaitGroup
	for range 6 {
		all.Go(func() {
			for range 10 {
				var me struct{ TokenID string }
				if agent.call(t, "me", nil, &me) || me.TokenID == "" {
					t.Errorf("got %+v", me)
				}
			}
		})
	}
	all.Wait()
	if answered.Load() != 61 || denied.Load() != 0 { // with that at the start
		t.Errorf("%d requests, of which %d were denied", answered.Load(), denied.Load())
	}
}

func TestWalkOfPagesFollowsTheRateLimitHeaders(t *testing.T) {
	const ms, s = time.Millisecond, time.Second
	for name, c := range map[string]struct {
		limit, policy string
		wait          time.Duration // 0 for none
		note          string
	}{
		"enough requests":         {`"a";r=4;t=9`, `"a";q=10;w=60`, 0, ""},
		"no request":              {`"a";r=0;t=3`, `"a";q=10;w=60`, 3 * s, ""},
		"the slowest of several":  {`"a";r=0;t=2, "b";r=0;t=4, "c";r=900;t=50`, `"a";q=3;w=1, "b";q=9;w=9, "c";q=1000;w=60`, 4 * s, ""},
		"the last tenth":          {`"a";r=9;t=5`, `"a";q=100;w=60`, 500 * ms, ""},
		"before the last tenth":   {`"a";r=11;t=5`, `"a";q=100;w=60`, 0, ""},
		"a noted wait":            {`"a";r=0;t=60`, `"a";q=10;w=60`, 60 * s, "waiting 1m0s for the rate limit"},
		"longer than max-wait":    {`"a";r=0;t=61`, `"a";q=10;w=60`, 0, ""},
		"a wait without end":      {`"a";r=0;t=999999999999999`, `"a";q=10;w=60`, 0, ""},
		"without a policy":        {`"a";r=0;t=3`, ``, 3 * s, ""},
		"malformed":               {`"a";r=0;t=3,,`, `=`, 0, ""},
		"numbers of other types":  {`"a";r="x";t=1.5, ("b");r=1`, `"a";q=?1`, 0, ""},
		"negative":                {`"a";r=-1;t=-5`, `"a";q=10;w=60`, 0, ""},
		"a name that is no text":  {`:YQ==:;r=0;t=3, 5;r=0;t=3`, `:YQ==:;q=3`, 0, ""},
		"another name and policy": {`"a";r=1;t=30`, `"b";q=1000;w=60`, 0, ""},
	} {
		page := cursors(250, nil)
		stub := startStub(t, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("RateLimit", c.limit)
			w.Header().Set("RateLimit-Policy", c.policy)
			page(w, r)
		})
		r := stub.run(t, "audit", "list", "--all", "-o", "id")
		var want []time.Duration
		if c.wait > 0 {
			want = []time.Duration{c.wait, c.wait} // before the second and the third page
		}
		if r.code != 0 || strings.Count(r.out, "\n") != 250 || !slices.Equal(r.waited, want) || !strings.Contains(r.err, c.note) || (c.note == "") != (r.err == "") {
			t.Errorf("%s: exit code %d, waited %v, want %v; %q", name, r.code, r.waited, want, r.err)
		}
	}
}

func TestWaitForALimitIsNoTimeOfRepeats(t *testing.T) {
	page := cursors(200, nil)
	exhausted := func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("RateLimit", `"a";r=0;t=50`)
		page(w, r)
	}
	s := startStub(t, exhausted, failure(429, "rate_limited", "Retry-After", "20"), page)
	r := s.run(t, "audit", "list", "--all", "-o", "id")
	if r.code != 0 || !slices.Equal(r.waited, []time.Duration{50 * time.Second, 20 * time.Second}) {
		t.Errorf("got %+v", r)
	}
}

// A denied call of an agent delays the others, until they may be sent.
func TestDenialHoldsForAllRequests(t *testing.T) {
	var denied, early atomic.Int64
	s := startStub(t, answer(200, identity, "RateLimit", `"a";r=1;t=1`), func(w http.ResponseWriter, r *http.Request) {
		denied.Store(time.Now().UnixNano())
		failure(429, "rate_limited", "Retry-After", "1")(w, r)
	}, func(w http.ResponseWriter, r *http.Request) {
		if time.Since(time.Unix(0, denied.Load())) < time.Second {
			early.Add(1)
		}
		answer(200, identity)(w, r)
	})
	agent := s.agent(t)
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() { agent.call(t, "me", nil, new(any)) })
	}
	all.Wait()
	if len(s.seen()) != 6 || early.Load() > 0 {
		t.Errorf("%d requests, %d of them early", len(s.seen()), early.Load())
	}
}

func TestAnotherTokenHasItsOwnLimits(t *testing.T) {
	s := startStub(t, answer(200, identity, "RateLimit", `"a";r=0;t=3600`), answer(200, identity))
	file := filepath.Join(t.TempDir(), "token")
	testkit.Must(t, os.WriteFile(file, []byte("ops_live_first"), 0o600))
	agent := s.agent(t, "--token-file", file, "--max-wait", "2h")
	testkit.Must(t, os.WriteFile(file, []byte("ops_live_second"), 0o600))
	if agent.call(t, "me", nil, new(any)) || s.seen()[1].Header.Get("Authorization") != "Bearer ops_live_second" {
		t.Error("the call with the second token failed")
	}
}

func TestRepeatAfterADenialWaitsOnce(t *testing.T) {
	s := startStub(t, failure(429, "rate_limited", "Retry-After", "2", "RateLimit", `"a";r=0;t=9`), answer(200, identity))
	if r := s.run(t, "me"); r.code != 0 || !slices.Equal(r.waited, []time.Duration{2 * time.Second}) {
		t.Errorf("got %+v", r)
	}
}
