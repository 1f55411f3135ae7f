package wiring_test

import (
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"opsgate/backendclient/testkit"
	"opsgate/cmd/internal/test/servicestest"
	"opsgate/ratelimit/demand"
	"opsgate/ratelimit/redisstore/redistest"
)

func TestDemandRecordsRefundsAndResets(t *testing.T) {
	file := filepath.Join(t.TempDir(), "demand.jsonl")
	r := start(t, "rate_limit:\n  limits: [{requests: 2, per: 1m}]\n  demand: {file: "+file+", sample: 100%}\n")
	for _, want := range []struct {
		path   string
		status int
	}{
		{"/v1/servers", 200},
		{"/v1/servers/" + servicestest.TokenID, 501}, // the service does not implement the call, so the request is refunded
		{"/v1/servers", 200},
		{"/v1/servers", 429},
	} {
		r.mustGet(t, want.path, want.status)
		if want.status == 501 {
			testkit.Eventually(t, "the request is refunded", func() bool {
				return strings.Contains(r.get(t, r.AdminAddress(), "/metrics").body, "opsgate_rate_limit_refunds_total 1\n")
			})
		}
	}
	reset, err := http.NewRequestWithContext(t.Context(), http.MethodDelete, "http://"+r.AdminAddress().String()+"/admin/limits/"+servicestest.TokenID, http.NoBody)
	testkit.Must(t, err)
	got, err := r.http.RoundTrip(reset)
	testkit.Must(t, err)
	_ = got.Body.Close()
	r.finish(t)
	events := eventsIn(t, file)
	if want := []string{"allowed", "allowed", "refund", "allowed", "denied by minute", "reset"}; !slices.Equal(events, want) {
		t.Errorf("got %q, want %q", events, want)
	}
}

func TestDrainSendsQueuedRefunds(t *testing.T) {
	const requests = 40
	file := filepath.Join(t.TempDir(), "demand.jsonl")
	r := start(t, "rate_limit:\n  limits: [{requests: 1000, per: 1m}]\n  demand: {file: "+file+", sample: 100%}\n")
	var clients sync.WaitGroup
	for range requests {
		clients.Go(func() {
			if got, err := r.try(r.Address(), "/v1/servers/"+servicestest.TokenID); err != nil || got.status != 501 {
				t.Errorf("got %+v, %v", got, err)
			}
		})
	}
	clients.Wait()
	r.finish(t)
	refunds := 0
	for _, event := range eventsIn(t, file) {
		if event == "refund" {
			refunds++
		}
	}
	if refunds != requests {
		t.Errorf("%d of %d failed requests were refunded", refunds, requests)
	}
}

// A restart in order interrupts a record only where the counts end with the gateway.
func TestRestartInOrderContinuesTheRecordWithRedis(t *testing.T) {
	server, services := redistest.Start(t), servicestest.Start(t)
	demandIn := func(file string) string { return "  demand: {file: " + file + ", sample: 100%}\n" }
	for name, test := range map[string]struct {
		text string
		want int
	}{
		"redis":  {strings.Replace(inRedis(server.Addr(), 1000, ""), "expected_replicas: 2", "expected_replicas: auto", 1), 0},
		"memory": {"rate_limit:\n  limits: [{requests: 1000, per: 1m}]\n", 1},
	} {
		file := filepath.Join(t.TempDir(), "demand.jsonl")
		for range 2 {
			r := startWith(t, services, test.text+demandIn(file))
			r.mustGet(t, "/v1/servers", 200)
			r.finish(t)
		}
		record, err := demand.Open(file)
		testkit.Must(t, err)
		for _, err := range record.Events() {
			testkit.Must(t, err)
		}
		if got := record.Interruptions(); len(got) != test.want {
			t.Errorf("%s: got %+v", name, got)
		}
		testkit.Must(t, record.Close())
	}
}

// eventsIn returns the events of a record as text.
func eventsIn(t *testing.T, file string) (events []string) {
	t.Helper()
	record, err := demand.Open(file)
	testkit.Must(t, err)
	defer func() { _ = record.Close() }()
	for event, err := range record.Events() {
		testkit.Must(t, err)
		if event.TokenID != servicestest.TokenID {
			t.Errorf("got %+v", event)
		}
		events = append(events, text(event))
	}
	return events
}

func text(e demand.Event) string {
	switch {
	case e.Reset:
		return "reset"
	case !e.RefundOf.IsZero():
		return "refund"
	case e.Allowed:
		return "allowed"
	default:
		return "denied by " + e.Denied
	}
}
