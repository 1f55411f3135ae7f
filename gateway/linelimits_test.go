package gateway

import (
	"errors"
	"net/http/httptest"
	"strings"
	"testing"

	"opsgate/ratelimit"
)

// A recordedLimit is a LineLimit that records the kind and cause of each call.
type recordedLimit struct {
	kind   string
	allows bool
	calls  *[]string
}

func (c recordedLimit) Allow(cause string) bool {
	*c.calls = append(*c.calls, c.kind+" "+cause)
	return c.allows
}

// limitLines returns an option that sets limits of lines, and the recorded calls.
func limitLines(allows bool) (change func(*Options), calls *[]string) {
	calls = new([]string)
	limit := func(kind string) LineLimit { return recordedLimit{kind, allows, calls} }
	return func(o *Options) {
		o.Lines = LineLimits{Unauthenticated: limit("unauthenticated"), RateLimited: limit("rate_limited"), Failed: limit("failed")}
	}, calls
}

// limitOfLine returns the limit and the cause for the line of an error; none if the line has no
// limit.
func limitOfLine(m errorCase) (calls []string) {
	var kind string
	switch {
	case strings.HasPrefix(m.cause, "token:"), m.cause == "input:header", m.cause == "busy:identity", strings.HasPrefix(m.target, "/docs/"):
		kind = "unauthenticated"
	case m.status == 429:
		kind = "rate_limited"
	case m.status >= 500 && m.cause != "overload": // it has no line
		kind = "failed"
	default:
		return nil
	}
	return []string{kind + " " + strings.Replace(m.cause, "limit:", "default/", 1)}
}

// TestEveryCauseIsLoggedCountedAndExplained has the limits of error lines.
func TestSuccessLinesAreLimitedOnlyIfUnauthenticated(t *testing.T) {
	change, calls := limitLines(false)
	h := start(t, change)
	if line := (errorCase{target: "/v1/servers"}).run(t, h); line["status"] != 200.0 || *calls != nil {
		t.Errorf("with a token: %v, limits called for %q", line, *calls)
	}
	if line := (errorCase{target: "/openapi.json"}).run(t, h); line != nil || strings.Join(*calls, ",") != "unauthenticated ok" {
		t.Errorf("the documentation: %v, limits called for %q", line, *calls)
	}
}

func TestDisabledLineIsNotCountedAsSuppressed(t *testing.T) {
	change, calls := limitLines(false)
	h := start(t, change, func(o *Options) { o.LogFailuresOnly = true })
	h.gateway.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/v1/servers", nil))
	if *calls != nil || h.log.String() != "" {
		t.Errorf("limits called for %q, logged %s", *calls, h.log.String())
	}
}

func TestLinesOfFailedRefundsAreLimited(t *testing.T) {
	change, calls := limitLines(false)
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
