package main

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"opsgate/backendclient/testkit"
	"opsgate/tools/edgebench/bare"
	"opsgate/tools/edgebench/canned"
)

// listen runs one part of the comparison in this process and returns its address.
func listen(t *testing.T, part func(context.Context, net.Listener) error) string {
	t.Helper()
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	testkit.Must(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- part(ctx, lis) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("stopping a part: %v", err)
		}
	})
	return lis.Addr().String()
}

func TestBareGatewayServesTheComparedRequests(t *testing.T) {
	backend := listen(t, canned.Serve)
	gateway := listen(t, func(ctx context.Context, lis net.Listener) error {
		return newHandler(bare.New).serve(ctx, lis, backend)
	})
	mustServe(t, gateway, []request{
		{"GET", "/v1/servers?team_id=t", "", `"servers"`},
		{"GET", "/v1/servers/some-id?team_id=t", "", `"lastSeenAt"`},
		{"POST", "/v1/incidents", strings.ReplaceAll(bareIncident, "%q", `"t"`), `"createdAt"`},
	})
}

func TestFloorServesTheComparedRequests(t *testing.T) {
	backend := listen(t, canned.Serve)
	gateway := listen(t, func(ctx context.Context, lis net.Listener) error { return floorFor("t").serve(ctx, lis, backend) })
	mustServe(t, gateway, []request{
		{"GET", "/v1/servers", "", `"servers"`},
		{"GET", "/v1/servers/some-id", "", `"lastSeenAt"`},
		{"POST", "/v1/incidents", edgeIncident, `"createdAt"`},
	})
}

// A request, and a part of its response.
type request struct{ method, path, body, want string }

func mustServe(t *testing.T, gateway string, requests []request) {
	t.Helper()
	for _, r := range requests {
		t.Run(r.method+" "+r.path, func(t *testing.T) {
			req, err := http.NewRequestWithContext(t.Context(), r.method, "http://"+gateway+r.path, strings.NewReader(r.body))
			testkit.Must(t, err)
			res, err := http.DefaultClient.Do(req)
			testkit.Must(t, err)
			defer func() { _ = res.Body.Close() }()
			body, err := io.ReadAll(res.Body)
			testkit.Must(t, err)
			if res.StatusCode != http.StatusOK || !json.Valid(body) || !strings.Contains(string(body), r.want) {
				t.Errorf("got %s %s, want 200 and JSON with %s", res.Status, body, r.want)
			}
		})
	}
}

func TestSummaryHasMediansOfTheRounds(t *testing.T) {
	figures := func(cpu time.Duration, rate float64) sample { return sample{cpu: cpu, rate: rate, p99: 1} }
	got := summarize(scenario{}, []round{
		{bare: figures(100, 30), edge: figures(50, 1)},
		{bare: figures(200, 10), edge: figures(80, 3)}, // a slow round with the same ratio
		{bare: figures(110, 20), edge: figures(44, 2)},
	})
	if got.bareMedian.cpu != 110 || got.edgeMedian.cpu != 50 || got.bareMedian.rate != 20 || got.edgeMedian.rate != 2 {
		t.Errorf("medians are %+v and %+v", got.bareMedian, got.edgeMedian)
	}
	if got.cpuRatio != 0.4 || got.p99Ratio != 1 {
		t.Errorf("ratios are %v and %v, want 0.4 and 1", got.cpuRatio, got.p99Ratio)
	}
}

func TestReportDetectsAMissedBar(t *testing.T) {
	sc := scenario{name: "one", bounds: bounds{0.65, 0.52}}
	for name, c := range map[string]struct {
		edge   sample
		missed bool
	}{
		"within":          {edge: sample{cpu: 65}},
		"too much CPU":    {edge: sample{cpu: 66}, missed: true},
		"too much memory": {edge: sample{cpu: 50, resident: residentBar + 1}, missed: true},
	} {
		t.Run(name, func(t *testing.T) {
			out := []outcome{summarize(sc, []round{{bare: sample{cpu: 100, p99: 1}, edge: c.edge}})}
			if missed := report(io.Discard, options{}, out); missed != c.missed {
				t.Errorf("missed = %v, want %v", missed, c.missed)
			}
		})
	}
}
