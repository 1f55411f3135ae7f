package gateway

import (
	"context"
	"log/slog"
	"net/http"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"opsgate/internal/testkit"
	fleetv1 "opsgate/proto/ops/fleet/v1"
	"opsgate/ratelimit"
)

// holding blocks calls of ListServers until release is closed, and sends each call to arrived.
func (s *services) holding(arrived chan<- struct{}, release <-chan struct{}) {
	s.answers["ListServers"] = func(ctx context.Context, _ proto.Message) (proto.Message, error) {
		arrived <- struct{}{}
		select {
		case <-release:
			return &fleetv1.ListServersResponse{}, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// try sends a request.
func (h *harness) try(token, method, path string) (*http.Response, error) {
	request, err := http.NewRequest(method, h.URL+path, http.NoBody)
	if err != nil {
		return nil, err
	}
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	return http.DefaultTransport.RoundTrip(request)
}

func TestRequestAboveTheInFlightLimitIsRejectedUnread(t *testing.T) {
	h := start(t, func(o *Options) {
		o.LoadLimit.SetLimit(0)
		o.Policies = policies(t, ratelimit.Limit{Name: "minute", Requests: 1, Per: time.Minute})
	})
	for _, test := range []struct{ token, method, path string }{
		{"full", "GET", "/v1/me"}, {"", "GET", "/v1/me"}, {"unknown", "GET", "/v1/me"}, {"full", "POST", "/v1/incidents"},
		{"full", "PUT", "/v1/me"}, {"full", "GET", "/v1/no-such"}, {"", "GET", "/"}, {"", "GET", "/openapi.json"},
	} {
		got := h.do(t, test.token, test.method, test.path, "")
		got.mustFail(t, 503, "unavailable")
		if header := got.Header; header.Get("Retry-After") != "1" || header.Get("X-Request-Id") == "" || header.Get("Ratelimit") != "" {
			t.Errorf("%+v: got %v", test, header)
		}
	}
	mustCount(t, h, "opsgate_http_requests_shed_total", map[string]float64{"in_flight": 8})
	if inFlight, limit, shed := h.gateway.options.LoadLimit.Stats(); inFlight != 0 || limit != 0 || shed != 8 {
		t.Errorf("%d of %d in flight, %d shed", inFlight, limit, shed)
	}
	if e := h.gateway.Explain(ExplainRequest{Path: "/v1/me"}); e.Answer.Status != 503 || e.Answer.FailedCheck != "capacity" || e.Answer.RetryAfter != 1 {
		t.Errorf("explained as %+v", e)
	}
	if log := h.log.String(); log != "" {
		t.Errorf("shed requests are logged: %s", log)
	}
	h.gateway.options.LoadLimit.SetLimit(1)
	h.get(t, "/v1/me").mustBe(t, 200) // shed requests did not count in its limit
}

// BenchmarkShed measures a request above the in-flight limit.
func BenchmarkShed(b *testing.B) {
	o := optionsWith(b, &services{})
	o.Logger = slog.New(slog.NewJSONHandler(&discardWriter{}, nil))
	o.LoadLimit = newLoadLimit(0, 64<<20, 64<<20)
	g, err := New(o)
	testkit.Must(b, err)
	serveInParallel(b, g, "/v1/servers")
}
