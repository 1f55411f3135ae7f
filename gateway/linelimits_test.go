package gateway

import (
	"errors"
	"net/http/httptest"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"opsgate/ratelimit"
)

// closed is a LineLimit that suppresses every line, and notes its kind and cause.
type closed struct {
	kind  string
	asked *[]string
}

func (c closed) Allow(cause string) bool {
	*c.asked = append(*c.asked, c.kind+" "+cause)
	return false
}

// suppressed returns an option that suppresses all lines that are bounded, and where these are noted.
func suppressed() (change func(*Options), asked *[]string) {
	asked = new([]string)
	return func(o *Options) {
		o.Lines = LineLimits{
			Unauthenticated: closed{"unauthenticated", asked}, RateLimited: closed{"rate_limited", asked}, Failed: closed{"failed", asked},
		}
	}, asked
}

// kindOf returns what bounds the line of a request that is refused or fails; "" for nothing beside the limits of its token.
func kindOf(m mishap) string {
	switch {
	case strings.HasPrefix(m.cause, "token:"), m.cause == "input:header", m.cause == "busy:identity", strings.HasPrefix(m.target, "/docs/"):
		return "unauthenticated"
	case m.status == 429:
		return "rate_limited"
	case m.status >= 500 && m.cause != "overload": // which has no line at all
		return "failed"
	}
	return ""
}

func TestErrorLinesAreLimited(t *testing.T) {
	for _, m := range mishaps(t) {
		t.Run(m.cause, func(t *testing.T) {
			change, asked := suppressed()
			if m.change == nil {
				m.change = func(*Options) {}
			}
			h := start(t, m.change, change)
			line := m.happen(t, h)
			var want []string
			if kind := kindOf(m); kind != "" {
				cause, _, isLimit := strings.Cut(m.cause, ":hour")
				if isLimit {
					cause = "limit"
				}
				want = []string{kind + " " + cause}
			}
			if diff := gocmp.Diff(want, *asked); diff != "" {
				t.Error(diff)
			}
			if written := line != nil; written != (want == nil && m.cause != "overload") {
				t.Errorf("logged: %v", line)
			}
		})
	}
}

func TestSuccessLinesAreLimitedOnlyIfUnauthenticated(t *testing.T) {
	change, asked := suppressed()
	h := start(t, change)
	if line := (mishap{target: "/v1/servers"}).happen(t, h); line["status"] != 200.0 || *asked != nil {
		t.Errorf("with a token: %v, asked %q", line, *asked)
	}
	if line := (mishap{target: "/openapi.json"}).happen(t, h); line != nil || strings.Join(*asked, ",") != "unauthenticated ok" {
		t.Errorf("the documentation: %v, asked %q", line, *asked)
	}
}

func TestDisabledLineIsNotCountedAsSuppressed(t *testing.T) {
	change, asked := suppressed()
	h := start(t, change, func(o *Options) { o.LogFailuresOnly = true })
	h.gateway.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/v1/servers", nil))
	if *asked != nil || h.log.String() != "" {
		t.Errorf("asked %q, logged %s", *asked, h.log.String())
	}
}

func TestLinesOfFailedRefundsAreLimited(t *testing.T) {
	change, asked := suppressed()
	m := mishap{fails: errors.New("odd")}
	h := start(t, change, func(o *Options) {
		o.Limiter = scriptedLimiter{decision: ratelimit.Decision{Allowed: true, Shadowed: -1}, refund: errors.New("away")}
	})
	line := m.happen(t, h)
	h.sendRefunds(t)
	if line != nil || strings.Contains(h.log.String(), "not refunded") || !strings.Contains(strings.Join(*asked, ","), "failed refund") {
		t.Errorf("asked %q, logged %v", *asked, line)
	}
}
