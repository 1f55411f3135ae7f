package wiring_test

import (
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"opsgate/cmd/internal/test/testkit"
	"opsgate/ratelimit/demand"
)

func TestDemandRecordsRefundsAndResets(t *testing.T) {
	services := startServices(t)
	file := filepath.Join(t.TempDir(), "demand.jsonl")
	r := reloadingGateway(t, services, "rate_limit:\n  limits: [{requests: 2, per: 1m}]\n  demand: {file: "+file+", sample: 100%}\n")
	for _, want := range []struct {
		path   string
		status int
	}{
		{"/v1/servers", 200},
		{"/v1/servers/" + tokenID, 501}, // the service does not implement the call, so the request is refunded
		{"/v1/servers", 200},
		{"/v1/servers", 429},
	} {
		if got := r.get(t, r.Address(), want.path); got.status != want.status {
			t.Errorf("%s: got %+v", want.path, got)
		}
		if want.status == 501 {
			testkit.Eventually(t, "the request is refunded", func() bool {
				return strings.Contains(r.get(t, r.AdminAddress(), "/metrics").body, "opsgate_rate_limit_refunds_total 1\n")
			})
		}
	}
	reset, err := http.NewRequestWithContext(t.Context(), http.MethodDelete, "http://"+r.AdminAddress().String()+"/admin/limits/"+tokenID, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	got, err := r.http.RoundTrip(reset)
	if err != nil {
		t.Fatal(err)
	}
	_ = got.Body.Close()
	r.finish(t)
	events := eventsIn(t, file)
	if want := []string{"allowed", "allowed", "refund", "allowed", "denied by minute", "reset"}; !slices.Equal(events, want) {
		t.Errorf("got %q, want %q", events, want)
	}
}

func TestDrainSendsQueuedRefunds(t *testing.T) {
	const requests = 40
	services := startServices(t)
	file := filepath.Join(t.TempDir(), "demand.jsonl")
	r := reloadingGateway(t, services, "rate_limit:\n  limits: [{requests: 1000, per: 1m}]\n  demand: {file: "+file+", sample: 100%}\n")
	var clients sync.WaitGroup
	for range requests {
		clients.Go(func() {
			if got, err := r.try(r.Address(), "/v1/servers/"+tokenID); err != nil || got.status != 501 {
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

// eventsIn returns the events of a record as text.
func eventsIn(t *testing.T, file string) (events []string) {
	t.Helper()
	record, err := demand.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = record.Close() }()
	for event, err := range record.Events() {
		if err != nil {
			t.Fatal(err)
		}
		if event.TokenID != tokenID {
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
