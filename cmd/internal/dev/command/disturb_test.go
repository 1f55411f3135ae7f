package command_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"opsgate/cmd/internal/test/devtest"
	"opsgate/gateway/openapi/openapitest"
	"opsgate/internal/testkit"
)

// With this seed, the first five faults are 429, 503, 504, a cut connection and a late answer. The
// errors have all that the description requires, and the write that got 504 has been executed: its
// repeats are replays.
func TestDisturbedAnswersKeepTheContract(t *testing.T) {
	t.Parallel()
	s := start(t, "--config="+write(t, devtest.HighLimits), "--disturb=100%", "--seed=2296")
	s.http.DisableKeepAlives = true // net/http itself repeats a request whose connection was used before and is cut
	validator := openapitest.NewStrict(t)
	const incident = `{"title": "Slow", "status": "investigating", "impact": "minor", "message": "We look into it."}`
	for _, want := range []int{429, 503, 504, 0, 200} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.BaseURL+"/v1/incidents", strings.NewReader(incident))
		testkit.Must(t, err)
		request.Header = http.Header{
			"Authorization": {"Bearer " + s.Tokens["full"]}, "Content-Type": {"application/json"}, "X-Request-Id": {"mine"},
			"Idempotency-Key": {"key"},
		}
		response, err := s.http.RoundTrip(request)
		if want == 0 {
			if err == nil {
				t.Errorf("got %s, want a connection that is cut", response.Status)
			}
			continue
		}
		testkit.Must(t, err)
		body, err := io.ReadAll(response.Body)
		testkit.Must(t, err)
		testkit.Must(t, response.Body.Close())
		validator.CheckResponse(t, openapitest.Exchange{
			Request: request, RequestBody: []byte(incident), Status: response.StatusCode, Header: response.Header, Body: body,
		})
		h := response.Header
		if response.StatusCode != want || h.Get("X-Request-Id") != "mine" || h.Get("RateLimit") == "" || h.Get("Cache-Control") != "private, no-cache" ||
			h.Get("X-Content-Type-Options") != "nosniff" || (h.Get("Idempotent-Replayed") == "true") != (want == 200) {
			t.Errorf("got %s %s %v, want %d", response.Status, body, h, want)
		}
	}
	testkit.Contains(t, s.Out.String(), "Disturbed on purpose: 100% of the requests under /v1/, by seed 2296.")
	s.end(t)
}
