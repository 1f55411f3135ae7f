package command

import (
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// A stub answers each request with a status, and remembers the method of the last one and its
// writer.
type stub struct {
	status int
	method string
	writer http.ResponseWriter
}

func (s *stub) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.method, s.writer = r.Method, w
	w.WriteHeader(s.status)
	_, _ = io.WriteString(w, "{}")
	_ = http.NewResponseController(w).Flush()
}

func newDisturber(share float64, seed uint64, next http.Handler) *disturber {
	return &disturber{next: next, share: share, seed: seed, logger: slog.New(slog.DiscardHandler)}
}

// post posts to a path, and returns the status and what else happened: "late", "cut".
func post(d *disturber, path string) (outcome string, answer *httptest.ResponseRecorder) {
	answer = httptest.NewRecorder()
	begun := time.Now()
	defer func() {
		switch {
		case recover() != nil && !answer.Flushed && answer.Body.Len() == 0:
			outcome = "cut"
		case time.Since(begun) > 0:
			outcome = "late " + outcome
		}
	}()
	d.ServeHTTP(answer, httptest.NewRequest(http.MethodPost, path, http.NoBody))
	return http.StatusText(answer.Code), answer
}

func TestDisturber_DisturbsAShareByItsSeed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		outcomes := func(share float64, seed uint64) (list []string) {
			d := newDisturber(share, seed, &stub{status: http.StatusOK})
			for range 2000 {
				outcome, _ := post(d, "/v1/incidents")
				list = append(list, outcome)
			}
			return list
		}
		first := outcomes(0.05, 7)
		if !slices.Equal(first, outcomes(0.05, 7)) || slices.Equal(first, outcomes(0.05, 8)) {
			t.Error("the same seed disturbs other requests, or another seed the same")
		}
		counts := map[string]int{}
		for _, outcome := range first {
			counts[outcome]++
		}
		if n := 2000 - counts["OK"]; n < 70 || n > 130 {
			t.Errorf("%d of 2000 requests are disturbed, want 100", n)
		}
		if kinds := slices.Sorted(maps.Keys(counts)); !slices.Equal(kinds, []string{
			"Gateway Timeout", "OK", "Service Unavailable", "Too Many Requests", "cut", "late OK",
		}) {
			t.Errorf("got %v", counts)
		}
	})
}

// A client may repeat a write that got 429 or 503 even without a key.
func TestDisturber_ExecutesNothingThatIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		next := &stub{status: http.StatusNoContent}
		d := newDisturber(1, 7, next)
		for range 100 {
			outcome, _ := post(d, "/v1/incidents")
			refused := outcome == "Too Many Requests" || outcome == "Service Unavailable"
			if executed := next.method == http.MethodPost; executed == refused {
				t.Fatalf("%s: executed %s", outcome, next.method)
			}
		}
	})
}

func TestDisturber_PassesOnTheRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		next := &stub{status: http.StatusUnauthorized}
		d := newDisturber(1, 7, next)
		for range 100 {
			if _, answer := post(d, "/v1/incidents"); answer.Code != http.StatusUnauthorized || answer.Body.String() != "{}" {
				t.Fatalf("a refusal of the gateway: got %d %s", answer.Code, answer.Body)
			}
			if _, answer := post(d, "/docs/"); next.writer != answer {
				t.Fatal("a page of the documentation is disturbed")
			}
		}
		d.share, next.status = 0, http.StatusOK
		if _, answer := post(d, "/v1/incidents"); next.writer != answer {
			t.Error("a request outside of the share is disturbed")
		}
	})
}
