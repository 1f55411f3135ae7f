package load_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"opsgate/backendclient/testkit"
	"opsgate/tools/edgebench/load"
)

// serve runs a server, and returns options that load it for 50 ms.
func serve(t *testing.T, h http.HandlerFunc) load.Options {
	t.Helper()
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	return load.Options{
		Address:     srv.Listener.Addr().String(),
		Request:     []byte("POST /x HTTP/1.1\r\nHost: test\r\nContent-Length: 4\r\n\r\nbody"),
		Connections: 3,
		Duration:    50 * time.Millisecond,
	}
}

func TestEachResponseIsCounted(t *testing.T) {
	long, requests := strings.Repeat("x", 100_000), atomic.Int64{}
	o := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		requests.Add(1)
		_, _ = io.WriteString(w, long)
	})
	responses := 0
	// Then a connection has found the end of its first response. A busy machine needs longer runs.
	testkit.Eventually(t, "a connection has sent a second request", func() bool {
		got, err := load.Run(t.Context(), o)
		testkit.Must(t, err)
		responses += got.Requests()
		o.Duration *= 2
		return got.Requests() > o.Connections
	})
	if int64(responses) != requests.Load() {
		t.Errorf("counted %d responses to %d requests", responses, requests.Load())
	}
}

func TestAnErrorStatusEndsTheRun(t *testing.T) {
	o := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "too many requests", http.StatusTooManyRequests)
	})
	o.Duration = time.Minute
	_, err := load.Run(t.Context(), o)
	if err == nil || !strings.Contains(err.Error(), "429") {
		t.Errorf("got error %v, want one that names the status 429", err)
	}
}

func TestOfferReturnsResultsByStatus(t *testing.T) {
	var requests atomic.Int64
	o := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		if requests.Add(1)%2 == 0 {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	o.Duration = 100 * time.Millisecond
	got, err := load.Offer(t.Context(), o, 400)
	testkit.Must(t, err)
	if ok, refused := got[200].Requests(), got[503].Requests(); len(got) != 2 || ok != 20 || refused != 20 || got[200].Percentile(1) <= 0 {
		t.Errorf("%d answered, %d refused, statuses %v", ok, refused, len(got))
	}
}

func TestCanceledRunReturnsAnError(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	o := serve(t, func(http.ResponseWriter, *http.Request) { cancel() })
	o.Duration = time.Hour
	if _, err := load.Run(ctx, o); err == nil {
		t.Error("a canceled run returned no error")
	}
}

func TestPercentilesAreOrdered(t *testing.T) {
	o := serve(t, func(http.ResponseWriter, *http.Request) {})
	o.Duration = time.Second // some responses, also on a busy machine
	got, err := load.Run(t.Context(), o)
	testkit.Must(t, err)
	low, mid, high := got.Percentile(0), got.Percentile(0.5), got.Percentile(1)
	if low <= 0 || low > mid || mid > high || high > got.Elapsed {
		t.Errorf("percentiles 0, 50, 100 are %v, %v, %v of a run of %v", low, mid, high, got.Elapsed)
	}
}
