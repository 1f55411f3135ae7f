package console_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"opsgate/cmd/internal/admin"
	"opsgate/cmd/internal/admin/console"
	"opsgate/cmd/internal/buildinfo"
)

// busy are the metrics of a gateway whose routes have all been asked for, and have all refused and failed, with those of the process.
func busy(b *testing.B) *counters {
	b.Helper()
	metrics := newCounters()
	metrics.Registry = admin.NewRegistry(buildinfo.Info{})
	metrics.MustRegister(metrics.requests, metrics.durations)
	for i := range 20 {
		for _, status := range []string{"200", "304", "400", "403", "404", "429", "503"} {
			metrics.serve(fmt.Sprint("v1Route", i), status, 10, time.Millisecond)
		}
	}
	return metrics
}

// What a gateway pays every ten seconds, whether or not somebody looks.
func BenchmarkSample(b *testing.B) {
	metrics := busy(b)
	c := console.New(console.Options{Metrics: metrics, Source: well(), SampleEvery: time.Hour})
	ended, cancel := context.WithCancel(b.Context())
	cancel() // a run that is told to end takes its first sample
	b.ReportAllocs()
	for b.Loop() {
		if err := c.Run(ended); err != nil {
			b.Fatal(err)
		}
	}
}

// What it pays besides, once a second, while anybody looks.
func BenchmarkState(b *testing.B) {
	now := noon
	c := console.New(console.Options{
		Metrics: busy(b), Source: well(), StateEvery: time.Hour, Clock: func() time.Time {
			now = now.Add(time.Hour) // nothing is shown twice
			return now
		},
	})
	gone, cancel := context.WithCancel(b.Context())
	cancel()
	request := httptest.NewRequestWithContext(gone, http.MethodGet, "/admin/events", http.NoBody)
	b.ReportAllocs()
	for b.Loop() {
		c.Events(httptest.NewRecorder(), request)
	}
}
