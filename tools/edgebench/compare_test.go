package main

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"opsgate/tools/edgebench/bare"
	"opsgate/tools/edgebench/canned"
)

// listen runs one part of the comparison in this process and returns its address.
func listen(t *testing.T, part func(context.Context, net.Listener) error) string {
	t.Helper()
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- part(ctx, lis) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("a part does not stop cleanly: %v", err)
		}
	})
	return lis.Addr().String()
}

func TestTheBareGatewayAnswersWhatTheComparisonAsks(t *testing.T) {
	backend := listen(t, canned.Serve)
	gateway := listen(t, func(ctx context.Context, lis net.Listener) error { return bare.Serve(ctx, lis, backend) })

	for _, ask := range []struct{ method, path, body, want string }{
		{"GET", "/v1/servers?team_id=t", "", `"servers"`},
		{"GET", "/v1/servers/some-id?team_id=t", "", `"lastSeenAt"`},
		{"POST", "/v1/incidents", strings.ReplaceAll(bareIncident, "%q", `"t"`), `"createdAt"`},
	} {
		t.Run(ask.method+" "+ask.path, func(t *testing.T) {
			req, err := http.NewRequestWithContext(t.Context(), ask.method, "http://"+gateway+ask.path, strings.NewReader(ask.body))
			if err != nil {
				t.Fatal(err)
			}
			res, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = res.Body.Close() }()
			body, err := io.ReadAll(res.Body)
			if err != nil {
				t.Fatal(err)
			}
			if res.StatusCode != http.StatusOK || !json.Valid(body) || !strings.Contains(string(body), ask.want) {
				t.Errorf("got %s %s, want 200 and JSON with %s", res.Status, body, ask.want)
			}
		})
	}
}

func TestMediansAreOfEachFigure(t *testing.T) {
	got := median([]sample{{cpu: 3, rate: 10}, {cpu: 1, rate: 30}, {cpu: 2, rate: 20}})
	if got.cpu != 2 || got.rate != 20 {
		t.Errorf("got %v and %v, want 2 and 20", got.cpu, got.rate)
	}
}

func TestAMissedBarIsReported(t *testing.T) {
	sc := scenario{name: "one", bar: 0.65, goal: 0.52}
	for name, c := range map[string]struct {
		edge   sample
		missed bool
	}{
		"within":          {edge: sample{cpu: 65}},
		"too much CPU":    {edge: sample{cpu: 66}, missed: true},
		"too much memory": {edge: sample{cpu: 50, resident: residentBar + 1}, missed: true},
	} {
		t.Run(name, func(t *testing.T) {
			out := []outcome{{scenario: sc, bareMedian: sample{cpu: 100}, edgeMedian: c.edge}}
			if missed := report(io.Discard, options{}, out); missed != c.missed {
				t.Errorf("missed = %v, want %v", missed, c.missed)
			}
		})
	}
}
