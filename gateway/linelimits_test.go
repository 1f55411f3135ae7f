package gateway

import (
	"errors"
	"net/http/httptest"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"opsgate/ratelimit"
)

// suppressAll is a LineLimit that suppresses every line, and records the kind and cause of each
// call.
type suppressAll struct {
	kind  string
	calls *[]string
}

func (c suppressAll) Allow(cause string) bool {
	*c.calls = append(*c.calls, c.kind+" "+cause)
	return false
}

// suppressed returns an option that suppresses all limited lines, and the recorded calls.
func suppressed() (change func(*Options), calls *[]string) {
	calls = new([]string)
	return func(o *Options) {
		o.Lines = LineLimits{
			Unauthenticated: suppressAll{"unauthenticated", calls}, RateLimited: suppressAll{"rate_limited", calls}, Failed: suppressAll{"failed", calls},
		}
	}, calls
}

// kindOf returns the kind of limit for the line of an error response; "" for none.
func kindOf(m errorCase) string {
	switch {
	case strings.HasPrefix(m.cause, "token:"), m.cause == "input:header", m.cause == "busy:identity", strings.HasPrefix(m.target, "/docs/"):
		return "unauthenticated"
	case m.status == 429:
		return "rate_limited"
	case m.status >= 500 && m.cause != "overload": // it has no line
		return "failed"
	}
	return ""
}

func TestErrorLinesAreLimited(t *testing.T) {
	for _, m := range errorCases(t) {
		t.Run(m.cause, func(t *testing.T) {
			change, calls := suppressed()
			h := start(t, m.change, change)
			line := m.run(t, h)
			var want []string
			if kind := kindOf(m); kind != "" {
				want = []string{kind + " " + strings.Replace(m.cause, "limit:", "default/", 1)}
			}
			if diff := gocmp.Diff(want, *calls); diff != "" {
				t.Error(diff)
			}
			if written := line != nil; written != (want == nil && m.cause != "overload") {
				t.Errorf("logged: %v", line)
			}
		})
	}
}

func TestSuccessLinesAreLimitedOnlyIfUnauthenticated(t *testing.T) {
	change, calls := suppressed()
	h := start(t, change)
	if line := (errorCase{target: "/v1/servers"}).run(t, h); line["status"] != 200.0 || *calls != nil {
		t.Errorf("with a token: %v, limits called for %q", line, *calls)
	}
	if line := (errorCase{target: "/openapi.json"}).run(t, h); line != nil || strings.Join(*calls, ",") != "unauthenticated ok" {
		t.Errorf("the documentation: %v, limits called for %q", line, *calls)
	}
}

func TestDisabledLineIsNotCountedAsSuppressed(t *testing.T) {
	change, calls := suppressed()
	h := start(t, change, func(o *Options) { o.LogFailuresOnly = true })
	h.gateway.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/v1/servers", nil))
	if *calls != nil || h.log.String() != "" {
		t.Errorf("limits called for %q, logged %s", *calls, h.log.String())
	}
}

func TestLinesOfFailedRefundsAreLimited(t *testing.T) {
	change, calls := suppressed()
	m := errorCase{fails: errors.New("unexpected")}
	h := start(t, change, func(o *Options) {
		o.Limiter = scriptedLimiter{decision: ratelimit.Decision{Allowed: true, ShadowDeniedBy: -1}, refund: errors.New("unavailable")}
	})
	line := m.run(t, h)
	h.sendRefunds(t)
	if line != nil || strings.Contains(h.log.String(), "not refunded") || !strings.Contains(strings.Join(*calls, ","), "failed refund") {
		t.Errorf("limits called for %q, logged %v", *calls, line)
	}
}
