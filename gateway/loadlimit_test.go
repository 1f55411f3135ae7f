package gateway

import (
	"context"
	"log/slog"
	"net/http"
	"strings"
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

// full starts a gateway with the given limit of requests in flight and as many requests. The
// returned function ends the requests.
func full(t *testing.T, limit int, change ...func(*Options)) (h *harness, empty func()) {
	t.Helper()
	h = start(t, append(change, func(o *Options) { o.LoadLimit.SetLimit(limit) })...)
	arrived, release, answered := make(chan struct{}), make(chan struct{}), make(chan int, limit)
	h.services.holding(arrived, release)
	for range limit {
		go func() {
			got := 0
			if response, err := h.try("full", "GET", "/v1/servers"); err == nil {
				_ = response.Body.Close()
				got = response.StatusCode
			}
			answered <- got
		}()
		<-arrived
	}
	return h, func() {
		t.Helper()
		close(release)
		for range limit {
			if got := <-answered; got != http.StatusOK {
				t.Errorf("a request that was admitted: got %d", got)
			}
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
	limit := ratelimit.Limit{Name: "minute", Requests: 3, Per: time.Minute}
	h, empty := full(t, 2, func(o *Options) { o.Policies = policies(t, limit) })
	for _, test := range []struct{ token, method, path string }{
		{"full", "GET", "/v1/me"}, {"", "GET", "/v1/me"}, {"unknown", "GET", "/v1/me"}, {"full", "POST", "/v1/incidents"},
		{"full", "PUT", "/v1/me"}, {"full", "GET", "/v1/no-such"}, {"", "GET", "/"}, {"", "GET", "/openapi.json"},
	} {
		got, err := h.try(test.token, test.method, test.path)
		testkit.Must(t, err)
		_ = got.Body.Close()
		header := got.Header
		if got.StatusCode != 503 || header.Get("Retry-After") != "1" || header.Get("X-Request-Id") == "" || header.Get("Ratelimit") != "" {
			t.Errorf("%+v: got %d %v", test, got.StatusCode, header)
		}
	}
	mustCount(t, h, "opsgate_http_requests_shed_total", map[string]float64{"in_flight": 8})
	if inFlight, limit, shed := h.gateway.options.LoadLimit.Stats(); inFlight != 2 || limit != 2 || shed != 8 {
		t.Errorf("%d of %d in flight, %d shed", inFlight, limit, shed)
	}
	if e := h.gateway.Explain(ExplainRequest{Path: "/v1/me"}); e.Answer.Status != 503 || e.Answer.FailedCheck != "capacity" || e.Answer.RetryAfter != 1 {
		t.Errorf("explained as %+v", e)
	}
	empty()
	if strings.Contains(h.log.String(), `"status":503`) {
		t.Errorf("shed requests are logged: %s", h.log)
	}
	// Of three requests per minute, the two admitted ones have used two.
	if got := h.get(t, "/v1/me"); got.StatusCode != 200 {
		t.Errorf("below the limit again: got %d", got.StatusCode)
	}
	if inFlight, _, _ := h.gateway.options.LoadLimit.Stats(); inFlight != 0 {
		t.Errorf("%d are still in flight", inFlight)
	}
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
