package edge_test

import (
	"net/http"
	"path/filepath"
	"slices"
	"testing"

	"opsgate/ratelimit/demand"
)

func TestDemandIsRecordedWithWhatWasGivenBack(t *testing.T) {
	services := startServices(t)
	file := filepath.Join(t.TempDir(), "demand.jsonl")
	r := reloadingGateway(t, services, "rate_limit:\n  limits: [{requests: 2, per: 1m}]\n  demand: {file: "+file+", sample: 100%}\n")
	for _, want := range []struct {
		path   string
		status int
	}{
		{"/v1/servers", 200},
		{"/v1/servers/" + tokenID, 501}, // the service has no such call, so it is given back
		{"/v1/servers", 200},
		{"/v1/servers", 429},
	} {
		if got := r.get(t, r.Address(), want.path); got.status != want.status {
			t.Errorf("%s: got %+v", want.path, got)
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

	record, err := demand.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = record.Close() }()
	var words []string
	for event, err := range record.Events() {
		if err != nil {
			t.Fatal(err)
		}
		if event.TokenID != tokenID {
			t.Errorf("got %+v", event)
		}
		words = append(words, word(event))
	}
	if want := []string{"allowed", "allowed", "refund", "allowed", "denied by minute", "reset"}; !slices.Equal(words, want) {
		t.Errorf("got %q, want %q", words, want)
	}
}

func word(e demand.Event) string {
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
