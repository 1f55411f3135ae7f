package console_test

import (
	"context"
	"fmt"
	"net/http/httptest"
	"testing"
	"time"

	"opsgate/backendclient/testkit"
	"opsgate/cmd/internal/gate/admin"
	"opsgate/cmd/internal/kit/buildinfo"
)

// busyMetrics returns the metrics of a process and of a gateway with requests of each route and status.
func busyMetrics(b *testing.B) *counters {
	b.Helper()
	metrics := newCounters()
	metrics.Registry = admin.NewRegistry(buildinfo.Info{})
	metrics.MustRegister(metrics.requests, metrics.durations)
	for i := range 20 {
		for _, status := range []string{"200", "304", "400", "403", "404", "429", "503"} {
			metrics.count(fmt.Sprint("v1Route", i), status, 10, time.Millisecond)
		}
	}
	return metrics
}

// BenchmarkSample measures the work of every ten seconds, with or without clients.
func BenchmarkSample(b *testing.B) {
	metrics := busyMetrics(b)
	c := newConsole(metrics, healthy())
	ended, cancel := context.WithCancel(b.Context())
	cancel() // a canceled Run still takes its first sample
	b.ReportAllocs()
	for b.Loop() {
		testkit.Must(b, c.Run(ended))
	}
}

// BenchmarkState measures the additional work of every second while the page is open.
func BenchmarkState(b *testing.B) {
	now := noon
	c := newWithClock(busyMetrics(b), healthy(), func() time.Time {
		now = now.Add(time.Hour) // so that the shared state is too old
		return now
	})
	b.ReportAllocs()
	for b.Loop() {
		c.State(httptest.NewRecorder(), nil)
	}
}
