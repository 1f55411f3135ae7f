package gateway

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"opsgate/authn"
	"opsgate/internal/testkit"
	"opsgate/internal/timings"
	fleetv1 "opsgate/proto/ops/fleet/v1"
	"opsgate/ratelimit"
)

// Duration of each call in the tests below.
const (
	lookup   = 30 * time.Millisecond
	deciding = 2 * time.Millisecond
	calling  = 70 * time.Millisecond
)

// slowAuthority accepts every token, after a delay.
type slowAuthority struct{ of Authenticator }

func (s slowAuthority) Authenticate(ctx context.Context, token string, from authn.Source) (*authn.Principal, error) {
	timings.FromContext(ctx).Add(timings.Identity, lookup)
	return s.of.Authenticate(ctx, token, from)
}

// slowLimiter decides after a delay.
type slowLimiter struct{ Limiter }

func (s slowLimiter) Decide(ctx context.Context, tokenID string, p *ratelimit.Policy) (ratelimit.Decision, error) {
	timings.FromContext(ctx).Add(timings.Limiter, deciding)
	return s.Limiter.Decide(ctx, tokenID, p)
}

// slowFleet succeeds at the second attempt.
type slowFleet struct{ fleetv1.FleetServiceClient }

func (slowFleet) ListServers(ctx context.Context, _ *fleetv1.ListServersRequest, _ ...grpc.CallOption) (*fleetv1.ListServersResponse, error) {
	timings.FromContext(ctx).Add(timings.Service, calling)
	timings.FromContext(ctx).AddRetry()
	return &fleetv1.ListServersResponse{}, nil
}

func TestWaitTimesAreLoggedAndCounted(t *testing.T) {
	h := start(t, func(o *Options) {
		o.Authenticator, o.Limiter, o.Fleet = slowAuthority{o.Authenticator}, slowLimiter{o.Limiter}, slowFleet{}
	})
	line := errorCase{}.run(t, h)
	for key, want := range map[string]float64{"identity_us": 30_000, "limiter_us": 2_000, "service_us": 70_000, "retries": 1} {
		if line[key] != want {
			t.Errorf("%s = %v, want %v: %v", key, line[key], want, line)
		}
	}
	families, err := h.registry.Gather()
	testkit.Must(t, err)
	want := map[string]time.Duration{"identity": lookup, "limiter": deciding, "service": calling}
	for _, f := range families {
		if f.GetName() != "opsgate_http_request_wait_seconds" {
			continue
		}
		for _, m := range f.GetMetric() {
			part, got := m.GetLabel()[0].GetValue(), m.GetHistogram()
			if got.GetSampleCount() != 1 || got.GetSampleSum() != want[part].Seconds() {
				t.Errorf("%s: got %v, want one of %v", part, got, want[part])
			}
			delete(want, part)
		}
	}
	if len(want) > 0 {
		t.Errorf("not counted: %v", want)
	}
	for key := range (errorCase{target: "/v1/me"}).run(t, start(t)) {
		if key == "retries" || strings.HasSuffix(key, "_us") && key != "latency_us" {
			t.Errorf("a request that did not wait has %s", key)
		}
	}
}

func TestLogLineOfRevokedOrExpiredTokenHasItsIDs(t *testing.T) {
	for _, ids := range []authn.Identity{{}, {TokenID: tokenID}, {TokenID: tokenID, TeamID: teamID}} {
		var answers []string
		for _, err := range []error{authn.ErrNotFound, &authn.RefusedError{Identity: ids, Reason: authn.ErrRevoked}, &authn.RefusedError{Identity: ids, Reason: authn.ErrExpired}} {
			h := start(t, ofIdentity(err))
			line := errorCase{}.run(t, h)
			want := ids
			if err == authn.ErrNotFound { //nolint:errorlint // no test wraps it
				want = authn.Identity{}
			}
			for key, value := range map[string]string{"token_id": want.TokenID, "team_id": want.TeamID} {
				if got, there := line[key]; there != (value != "") || there && got != value {
					t.Errorf("%s = %v, want %q: %v", key, got, value, line)
				}
			}
			answers = append(answers, h.get(t, "/v1/servers").mustBe(t, 401).body)
		}
		if answers[0] != answers[1] || answers[0] != answers[2] {
			t.Errorf("the responses distinguish a revoked or expired token from one that does not exist: %q", answers)
		}
	}
}

// Lines have what `opsgate replay` and `usage` read: the class of the limits, who decided, and
// whether the request was given back.
func TestLinesHaveTheDecision(t *testing.T) {
	admitted := ratelimit.Decision{Allowed: true, DeniedBy: -1, ShadowDeniedBy: -1}
	local := admitted
	local.Local = true
	for _, test := range []struct {
		name     string
		decision ratelimit.Decision
		fails    error
		want     map[string]any // nil: absent
	}{
		{"admitted", admitted, nil, map[string]any{"class": "default", "local": nil, "refunded": nil}},
		{"by the gateway alone", local, nil, map[string]any{"class": "default", "local": true}},
		{"denied", ratelimit.Decision{ShadowDeniedBy: -1}, nil, map[string]any{"class": "default", "cause": "limit:second", "refunded": nil}},
		{"given back", admitted, status.Error(codes.Unavailable, "away"), map[string]any{"class": "default", "refunded": true}},
		{"not given back", admitted, status.Error(codes.ResourceExhausted, "later"), map[string]any{"class": "default", "refunded": nil}},
	} {
		h := start(t, func(o *Options) { o.Limiter = scriptedLimiter{decision: test.decision} })
		line := errorCase{fails: test.fails}.run(t, h)
		for key, want := range test.want {
			if line[key] != want {
				t.Errorf("%s: %s is %v in %v", test.name, key, line[key], line)
			}
		}
	}
	if line := (errorCase{request: func(r *http.Request) { r.Header.Del("Authorization") }}).run(t, start(t)); line["class"] != nil {
		t.Errorf("without a decision: %v", line)
	}
}

func TestLinesOfAnIncompleteLogAreMarked(t *testing.T) {
	for mark, change := range map[string]func(*Options){
		"":              func(*Options) {},
		"sampled":       func(o *Options) { o.LogSkipFraction = 0.5 },
		"failures_only": func(o *Options) { o.LogFailuresOnly = true },
	} {
		line := errorCase{fails: status.Error(codes.Internal, "broken")}.run(t, start(t, change))
		for _, key := range []string{"sampled", "failures_only"} {
			if marked := line[key] == true; marked != (key == mark) {
				t.Errorf("%q: %v", mark, line)
			}
		}
	}
}

// Only a sample of the successes is logged. Errors are always logged.
func TestSuccessesAreSampled(t *testing.T) {
	draws := []float64{0.91, 0.9, 0.89, 0}
	h := start(t, func(o *Options) {
		o.LogSkipFraction = 0.9
		o.Random = func() float64 {
			drawn := draws[0]
			draws = draws[1:]
			return drawn
		}
	})
	for range draws {
		errorCase{target: "/v1/me"}.send(t, h)
	}
	if lines := h.log.String(); strings.Count(lines, "\n") != 2 || len(draws) != 0 {
		t.Errorf("got %s, want the first two", lines)
	}
	if line := (errorCase{method: "PUT"}).run(t, h); line["cause"] != "method" {
		t.Errorf("an error: %v", line)
	}
}
