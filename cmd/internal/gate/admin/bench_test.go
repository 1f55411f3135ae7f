package admin

import (
	"fmt"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/collectors"
)

// busy returns an Admin with the metrics of a process and of a gateway with requests of each route
// and status.
func busy(b *testing.B) *Admin {
	b.Helper()
	a, metrics := sampled(b)
	metrics.MustRegister(collectors.NewGoCollector())
	for i := range 20 {
		for _, status := range []string{"200", "304", "400", "403", "404", "429", "503"} {
			metrics.count(fmt.Sprint("v1Route", i), status, 10, time.Millisecond)
		}
	}
	a.sampleTimes(points)
	b.ReportAllocs()
	return a
}

// BenchmarkSample measures the work of every ten seconds, with or without clients.
func BenchmarkSample(b *testing.B) {
	for a := busy(b); b.Loop(); {
		a.sample()
	}
}

// BenchmarkState measures the additional work of every second while the page is open.
func BenchmarkState(b *testing.B) {
	for a := busy(b); b.Loop(); {
		stateOf(a)
	}
}
