package system

import (
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"opsgate/cmd/internal/test/testkit"
)

// An admission is the time of an admitted request. The decision was made between the two times.
type admission struct{ sent, answered time.Time }

// Four clients send requests with one token until twelve are admitted.
func TestAtMostThreeRequestsAreAdmittedInAnySecond(t *testing.T) {
	s := start(t, launchOptions{config: demoLimits})
	full := s.as(t, "full")
	var mu sync.Mutex
	var admitted []admission
	refused := 0
	// send sends a request, and reports whether enough requests are admitted.
	send := func() bool {
		sent := time.Now()
		r, err := full.try(t.Context(), "GET", "/v1/me", "")
		mu.Lock()
		defer mu.Unlock()
		switch {
		case err != nil:
			t.Error(err)
		case r.status == 200:
			admitted = append(admitted, admission{sent, time.Now()})
		case r.status == 429:
			refused++
			checkRefusal(t, r)
		default:
			t.Errorf("%d %s", r.status, r.body)
		}
		return len(admitted) >= 12 || t.Failed()
	}
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for end := time.Now().Add(testkit.MaxWait); time.Now().Before(end) && !send(); {
			}
		})
	}
	wg.Wait()
	if len(admitted) < 12 || refused == 0 {
		t.Errorf("%d admitted at 3 a second, %d refused", len(admitted), refused)
	}
	slices.SortFunc(admitted, func(a, b admission) int { return a.answered.Compare(b.answered) })
	for ; len(admitted) >= 4; admitted = admitted[1:] {
		first := slices.MinFunc(admitted[:4], func(a, b admission) int { return a.sent.Compare(b.sent) })
		if span := admitted[3].answered.Sub(first.sent); span < time.Second {
			t.Errorf("four admitted within %v", span)
		}
	}
	if other := s.as(t, "read").get(t, "/v1/me"); other.status != 200 {
		t.Errorf("another token of the team: %d", other.status)
	}
}

func checkRefusal(t *testing.T, r response) {
	t.Helper()
	after, err := strconv.Atoi(r.header.Get("Retry-After"))
	if err != nil || after < 1 || after > 6 { // a wait of at most 2 seconds, plus up to 4 to spread the clients of a token
		t.Errorf("Retry-After = %q", r.header.Get("Retry-After"))
	}
	if body := string(r.body); !strings.Contains(body, `"code":"rate_limited"`) || !strings.Contains(body, "3 requests per second") || strings.Contains(body, "details") {
		t.Errorf("body = %s", body)
	}
	if r.header.Get("RateLimit-Policy") != `"second";q=3;w=1, "hour";q=5000;w=3600` || !strings.HasPrefix(r.header.Get("RateLimit"), `"second";r=0;t=`) {
		t.Errorf("RateLimit-Policy %q, RateLimit %q", r.header.Get("RateLimit-Policy"), r.header.Get("RateLimit"))
	}
}

func TestEveryAuthenticatedRequestCounts(t *testing.T) {
	for name, target := range map[string]string{
		"a path that does not exist": "/v1/nothing", "a missing scope": "/v1/audit", "a bad query": "/v1/servers/x", "a success": "/v1/me",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := start(t, launchOptions{config: "rate_limit: {limits: [{requests: 2, per: 1h}]}\n"})
			c := s.as(t, "servers:read")
			for range 2 {
				if r := c.get(t, target); r.status == 429 {
					t.Fatal("denied within the limit")
				}
			}
			r := c.get(t, target)
			r.fails(t, 429, "rate_limited")
			if after, _ := strconv.Atoi(r.header.Get("Retry-After")); after < 3500 || after > 3600 {
				t.Errorf("Retry-After = %d", after)
			}
		})
	}
}
