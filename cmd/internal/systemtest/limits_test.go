package systemtest

import (
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

func TestTheLimitsOfTheSpecification(t *testing.T) {
	s := start(t, launchOptions{config: demoLimits})
	full := s.as(t, "full")
	var mu sync.Mutex
	var admitted []time.Time
	refused := 0
	var wg sync.WaitGroup
	deadline := time.Now().Add(4 * time.Second)
	for range 4 {
		wg.Go(func() {
			for time.Now().Before(deadline) {
				r, err := full.try(t.Context(), "GET", "/v1/me", "")
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				switch r.status {
				case 200:
					admitted = append(admitted, time.Now())
				case 429:
					refused++
					checkRefusal(t, r)
				default:
					t.Errorf("%d %s", r.status, r.body)
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if len(admitted) < 10 || len(admitted) > 16 || refused == 0 {
		t.Errorf("%d admitted in 4 s at 3 a second, %d refused", len(admitted), refused)
	}
	slices.SortFunc(admitted, time.Time.Compare)
	for i := 3; i < len(admitted); i++ {
		// The client sees answers, not decisions: a slow one may come late.
		if gap := admitted[i].Sub(admitted[i-3]); gap < 700*time.Millisecond {
			t.Errorf("four admitted within %v", gap)
		}
	}
	if other := s.as(t, "read").get(t, "/v1/me"); other.status != 200 {
		t.Errorf("another token of the team: %d", other.status)
	}
}

func checkRefusal(t *testing.T, r response) {
	t.Helper()
	after, err := strconv.Atoi(r.header.Get("Retry-After"))
	if err != nil || after < 1 || after > 2 {
		t.Errorf("Retry-After = %q", r.header.Get("Retry-After"))
	}
	if body := string(r.body); !strings.Contains(body, `"code":"rate_limited"`) || !strings.Contains(body, "3 requests per second") || strings.Contains(body, "details") {
		t.Errorf("body = %s", body)
	}
	if r.header.Get("RateLimit-Policy") != `"second";q=3;w=1, "hour";q=5000;w=3600` || !strings.HasPrefix(r.header.Get("RateLimit"), `"second";r=0;t=`) {
		t.Errorf("RateLimit-Policy %q, RateLimit %q", r.header.Get("RateLimit-Policy"), r.header.Get("RateLimit"))
	}
}

func TestWhatSpendsABudget(t *testing.T) {
	for name, target := range map[string]string{
		"a path that does not exist": "/v1/nothing", "a missing scope": "/v1/audit", "a bad query": "/v1/servers/x", "a success": "/v1/me",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := start(t, launchOptions{config: "rate_limit: {limits: [{requests: 2, per: 1h}]}\n"})
			c := s.as(t, "servers:read")
			for range 2 {
				if r := c.get(t, target); r.status == 429 {
					t.Fatal("refused too soon")
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
