package gateway

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/dunglas/httpsfv"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"opsgate/authn"
	"opsgate/internal/testkit"
	"opsgate/ratelimit"
)

// limited runs a gateway with limits for all tokens, and a clock that the test moves.
func limited(t *testing.T, limits []ratelimit.Limit, change ...func(*Options)) (h *harness, now *time.Time) {
	t.Helper()
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	clock := func() time.Time { return at }
	h = start(t, append([]func(*Options){func(o *Options) {
		o.Clock = clock
		o.Limiter = ratelimit.NewMemory(clock)
		o.Policies = policies(t, limits...)
	}}, change...)...)
	return h, &at
}

// A limitMember is a member of a RateLimit or RateLimit-Policy header.
type limitMember struct {
	name       string
	parameters map[string]int64
}

// members parses a structured header with a client library.
func members(t *testing.T, header http.Header, name string) []limitMember {
	t.Helper()
	list, err := httpsfv.UnmarshalList(header.Values(name))
	if err != nil {
		t.Fatalf("%s: %q: %v", name, header.Values(name), err)
	}
	found := make([]limitMember, len(list))
	for i, member := range list {
		item := member.(httpsfv.Item)
		found[i] = limitMember{item.Value.(string), map[string]int64{}}
		for _, key := range item.Params.Names() {
			value, _ := item.Params.Get(key)
			found[i].parameters[key] = value.(int64)
		}
	}
	return found
}

func mustHaveHeader(t *testing.T, header http.Header, name string, want ...limitMember) {
	t.Helper()
	if diff := cmp.Diff(want, members(t, header, name), cmp.AllowUnexported(limitMember{})); diff != "" {
		t.Errorf("%s: %s", name, diff)
	}
}

func policyOf(name string, q, w int64) limitMember {
	return limitMember{name, map[string]int64{"q": q, "w": w}}
}

func budgetOf(name string, r, t int64) limitMember {
	return limitMember{name, map[string]int64{"r": r, "t": t}}
}

// mustLeave compares the remaining requests in the RateLimit header with the expected ones, for
// example "hour 17".
func mustLeave(t *testing.T, got answer, want ...string) {
	t.Helper()
	var left []string
	for _, l := range members(t, got.Header, "RateLimit") {
		left = append(left, fmt.Sprint(l.name, " ", l.parameters["r"]))
	}
	if diff := cmp.Diff(want, left); diff != "" {
		t.Errorf("RateLimit: %s", diff)
	}
}

func TestLimitsAreReportedAndEnforced(t *testing.T) {
	h, now := limited(t, []ratelimit.Limit{
		{Name: "second", Requests: 3, Per: time.Second}, {Name: "hour", Requests: 5000, Per: time.Hour},
	})
	for i := range int64(3) {
		got := h.get(t, "/v1/me").mustBe(t, 200)
		mustHaveHeader(t, got.Header, "RateLimit-Policy", policyOf("second", 3, 1), policyOf("hour", 5000, 3600))
		mustLeave(t, got, fmt.Sprint("second ", 2-i), fmt.Sprint("hour ", 4999-i))
		if wait := members(t, got.Header, "RateLimit"); wait[0].parameters["t"] != 1 || wait[1].parameters["t"]/60 != 60 {
			t.Errorf("RateLimit: %v", wait)
		}
	}
	refused := h.get(t, "/v1/nothing")
	refused.mustFail(t, 429, "rate_limited")
	if !strings.Contains(refused.body, "3 requests per second") || refused.Header.Get("Retry-After") != "1" {
		t.Errorf("%s, Retry-After %q", refused.body, refused.Header.Get("Retry-After"))
	}
	if h.do(t, "", "GET", "/v1/me", "").Header.Get("RateLimit") != "" {
		t.Error("an unauthenticated response has RateLimit")
	}
	*now = now.Add(time.Second)
	h.get(t, "/v1/nothing").mustFail(t, 404, "not_found")
}

// The tests of config have the order of precedence.
func TestEachTokenHasItsPolicy(t *testing.T) {
	of := func(class, name string, requests int, teams ...string) ratelimit.Assignment {
		return ratelimit.Assignment{Class: class, Key: class, Teams: teams, Policy: policy(t, ratelimit.Limit{Name: name, Requests: requests, Per: time.Hour})}
	}
	all, err := ratelimit.NewPolicies(of("", "hour", 10), of("partner", "partner", 30, otherID), of("gold", "gold", 40))
	testkit.Must(t, err)
	h := start(t, func(o *Options) {
		o.Policies = all
		o.Authenticator = tokens{"partner": {TokenID: otherID, TeamID: otherID, AIPlan: true}, "gold": {TokenID: someID, TeamID: teamID, AIPlan: true, LimitClass: "gold"}, "default": {TokenID: tokenID, TeamID: teamID, AIPlan: true}}
	})
	for token, want := range map[string]limitMember{"partner": policyOf("partner", 30, 3600), "gold": policyOf("gold", 40, 3600), "default": policyOf("hour", 10, 3600)} {
		got := h.do(t, token, "GET", "/v1/me", "").mustBe(t, 200)
		mustHaveHeader(t, got.Header, "RateLimit-Policy", want)
		mustLeave(t, got, fmt.Sprint(want.name, " ", want.parameters["q"]-1))
	}
	mustCount(t, h, "opsgate_rate_limit_decisions_total", map[string]float64{"partner admitted partner": 1, "gold admitted gold": 1, "hour admitted default": 1})
}

func TestUnknownClassHasTheDefaultLimitsAndOneWarningAMinute(t *testing.T) {
	named, now := &authn.Principal{TokenID: tokenID, TeamID: teamID, AIPlan: true, LimitClass: "gold"}, time.Now()
	h := start(t, func(o *Options) {
		o.Authenticator, o.Clock = tokens{"named": named}, func() time.Time { return now }
	})
	for _, wait := range []time.Duration{0, 59 * time.Second, time.Second} {
		now = now.Add(wait)
		h.do(t, "named", "GET", "/v1/me", "").mustBe(t, 200)
	}
	h.gateway.Explain(ExplainRequest{Path: "/v1/me", Principal: named}) // neither counted nor logged
	const warning = "identity names a class of limits that the configuration does not have; the default limits apply"
	if n := strings.Count(h.log.String(), warning); n != 2 {
		t.Errorf("%d warnings, want 2:\n%s", n, h.log.String())
	}
	for _, words := range []string{`"limit_class":"gold","team_id":"` + teamID, `"class":"default","limit_class":"gold"`} {
		if !strings.Contains(h.log.String(), words) {
			t.Errorf("the log lacks %s:\n%s", words, h.log.String())
		}
	}
	mustCount(t, h, "opsgate_rate_limit_unknown_class_requests_total", map[string]float64{"": 3})
}

// A shadow limit is decided and counted, and clients do not see it.
func TestShadowLimitsAreInvisibleToClients(t *testing.T) {
	h, _ := limited(t, []ratelimit.Limit{
		{Name: "tight", Requests: 1, Per: time.Minute, Shadow: true},
		{Name: "hour", Requests: 3, Per: time.Hour},
		{Name: "loose", Requests: 10, Per: 24 * time.Hour, Shadow: true},
	}, func(o *Options) { o.LogFailuresOnly = true })
	for i := range int64(3) {
		got := h.get(t, "/v1/me").mustBe(t, 200)
		mustHaveHeader(t, got.Header, "RateLimit-Policy", policyOf("hour", 3, 3600))
		mustLeave(t, got, fmt.Sprint("hour ", 2-i))
	}
	refused := h.get(t, "/v1/me")
	refused.mustFail(t, 429, "rate_limited")
	if !strings.Contains(refused.body, "3 requests per hour") || !strings.HasPrefix(refused.Header.Get("Retry-After"), "360") {
		t.Errorf("%s, Retry-After %q", refused.body, refused.Header.Get("Retry-After"))
	}
	mustLeave(t, refused, "hour 0")

	mustCount(t, h, "opsgate_rate_limit_decisions_total", map[string]float64{
		"hour admitted default": 2, "hour near default": 1, "hour denied default": 1,
		"tight near default": 1, "tight shadow_denied default": 2,
		"loose admitted default": 1, // the other requests would have been denied, and count in no shadow limit
	})
	if log := h.log.String(); strings.Count(log, "\n") != 2 || strings.Count(log, `"shadow_denied":"tight"`) != 2 {
		t.Errorf("log: %s, want the two requests that the shadow limit would have denied", log)
	}
}

// The RateLimit of a blocked request has no budget of any limit.
func TestLimitOfNoRequestsBlocks(t *testing.T) {
	h, _ := limited(t, []ratelimit.Limit{{Name: "second", Requests: 3, Per: time.Second}, {Name: "block", Per: time.Hour}})
	for range 2 {
		refused := h.get(t, "/v1/me")
		refused.mustFail(t, 429, "rate_limited")
		if !strings.Contains(refused.body, "requests with this token are blocked: 0 requests per hour") ||
			refused.Header.Get("Retry-After") != "3600" {
			t.Errorf("%s, Retry-After %q", refused.body, refused.Header.Get("Retry-After"))
		}
		mustHaveHeader(t, refused.Header, "RateLimit-Policy", policyOf("second", 3, 1), policyOf("block", 0, 3600))
		mustHaveHeader(t, refused.Header, "RateLimit", budgetOf("second", 0, 3600), budgetOf("block", 0, 3600))
	}
	mustCount(t, h, "opsgate_rate_limit_decisions_total", map[string]float64{"block denied default": 2})
	if !strings.Contains(h.log.String(), `"cause":"limit:block"`) {
		t.Errorf("log: %s", h.log)
	}
}

// More than 80 % used is near, for any size of the limit.
func TestNearMeansLessThanAFifthRemains(t *testing.T) {
	for requests, near := range map[int]float64{1: 1, 3: 1, 4: 1, 5: 1, 6: 2, 10: 2, 11: 3, 100: 20} {
		h, _ := limited(t, []ratelimit.Limit{{Name: "hour", Requests: requests, Per: time.Hour}})
		for range requests {
			h.get(t, "/v1/me").mustBe(t, 200)
		}
		want := map[string]float64{"hour near default": near}
		if admitted := float64(requests) - near; admitted > 0 {
			want["hour admitted default"] = admitted
		}
		mustCount(t, h, "opsgate_rate_limit_decisions_total", want)
	}
}

// The RateLimit header of a refunded response has the values of the next Peek.
func TestRefundIsVisibleInTheResponse(t *testing.T) {
	h, now := limited(t, []ratelimit.Limit{
		{Name: "second", Requests: 1, Per: time.Second}, {Name: "minute", Requests: 3, Per: time.Minute}, {Name: "hour", Requests: 600, Per: time.Hour},
	})
	h.services.fail("ListServers", status.Error(codes.Internal, "broken"))
	h.get(t, "/v1/me").mustBe(t, 200)
	*now = now.Add(10 * time.Second)
	got := h.get(t, "/v1/servers")
	got.mustFail(t, 500, "internal_error")
	h.sendRefunds(t)
	left, err := h.gateway.options.Limiter.(*ratelimit.Memory).Peek(t.Context(), tokenID, h.gateway.options.Policies.All()[0].Policy)
	testkit.Must(t, err)
	var want []limitMember
	for i, name := range []string{"second", "minute", "hour"} {
		want = append(want, budgetOf(name, int64(left.Budgets[i].Remaining), wholeSeconds(left.Budgets[i].Reset)))
	}
	mustHaveHeader(t, got.Header, "RateLimit", want...)
	if want[1].parameters["r"] != 2 || want[1].parameters["t"] > 51 {
		t.Errorf("%v: the first request does not count", want)
	}
}

// A scriptedLimiter returns fixed results.
type scriptedLimiter struct {
	decision ratelimit.Decision
	err      error
	refund   error
}

func (s scriptedLimiter) Decide(context.Context, string, *ratelimit.Policy) (ratelimit.Decision, error) {
	return s.decision, s.err
}

func (s scriptedLimiter) Refund(context.Context, string, ratelimit.Decision) error {
	return s.refund
}

// If the store is unavailable, the response is a 503 and not a 429, with the Retry-After of the
// store.
func TestUnavailableLimiterIs503(t *testing.T) {
	refused := errors.New("dial tcp 10.0.0.7:6379: connection refused")
	for name, c := range map[string]struct {
		err        error
		retryAfter string
	}{
		"unavailable":                      {&ratelimit.UnavailableError{RetryAfter: 2500 * time.Millisecond, Cause: refused}, "3"},
		"unavailable, wrapped":             {fmt.Errorf("failover: %w", &ratelimit.UnavailableError{RetryAfter: time.Minute, Cause: refused}), "60"},
		"unavailable, without Retry-After": {&ratelimit.UnavailableError{Cause: refused}, "1"},
		"another error":                    {refused, "1"},
		"timeout":                          {context.DeadlineExceeded, "1"},
	} {
		t.Run(name, func(t *testing.T) {
			h := start(t, func(o *Options) { o.Limiter = scriptedLimiter{err: c.err} })
			got := h.get(t, "/v1/me")
			got.mustFail(t, 503, "unavailable")
			if after := got.Header.Get("Retry-After"); after != c.retryAfter {
				t.Errorf("Retry-After = %q, want %s", after, c.retryAfter)
			}
			if got.Header.Get("RateLimit") != "" || strings.Contains(got.body, "6379") {
				t.Errorf("%v %s", got.Header, got.body)
			}
			mustCount(t, h, "opsgate_rate_limit_decisions_total", nil)
			if !strings.Contains(h.log.String(), `"cause":"unavailable:limiter"`) || !strings.Contains(h.log.String(), `"error":"deciding limits: `) {
				t.Error("the log lacks the cause or the error")
			}
		})
	}
}

func TestLocalAndCachedDecisionsAreCounted(t *testing.T) {
	for name, decision := range map[string]ratelimit.Decision{
		"opsgate_rate_limit_local_decisions_total": {Allowed: true, DeniedBy: -1, ShadowDeniedBy: -1, Local: true},
		"opsgate_rate_limit_cached_refusals_total": {DeniedBy: 0, ShadowDeniedBy: -1, RetryAfter: time.Second, Cached: true},
	} {
		h := start(t, func(o *Options) { o.Limiter = scriptedLimiter{decision: decision} })
		h.get(t, "/v1/me")
		mustCount(t, h, name, map[string]float64{"": 1})
	}
}

// decisionRecorder records observed decisions.
type decisionRecorder struct{ observed []string }

func (w *decisionRecorder) Decided(p *authn.Principal, d *ratelimit.Decision) {
	w.observed = append(w.observed, fmt.Sprintf("%s %s %v", p.TeamID, p.TokenID, d.Allowed))
}

func TestEachDecisionIsObservedOnce(t *testing.T) {
	w := &decisionRecorder{}
	h, _ := limited(t, []ratelimit.Limit{{Name: "hour", Requests: 2, Per: time.Hour}}, func(o *Options) { o.Decisions = w })
	h.services.fail("ListServers", status.Error(codes.Unavailable, "unavailable"))
	h.get(t, "/v1/servers").mustBe(t, 503) // refunded, but observed
	h.sendRefunds(t)
	h.do(t, "", "GET", "/v1/me", "").mustBe(t, 401)        // no decision
	h.get(t, "/v1/nothing").mustBe(t, 404)                 // the decision precedes the route check
	h.do(t, "none", "GET", "/v1/audit", "").mustBe(t, 403) // the same token id
	h.get(t, "/v1/me").mustBe(t, 429)
	h.Server.Close()
	prefix := teamID + " " + tokenID + " "
	if diff := cmp.Diff([]string{prefix + "true", prefix + "true", prefix + "true", prefix + "false"}, w.observed); diff != "" {
		t.Error(diff)
	}
}
