package endpoints

import (
	"log/slog"
	"testing"
	"time"

	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/connectivity"
)

// A probe that ends after its endpoint was connected again may have been answered by another
// program.
func TestALateProbeIsIgnored(t *testing.T) {
	s := New(Options{Logger: slog.New(slog.DiscardHandler), RequestProbes: func() {}, Intervals: Intervals{Ejection: time.Minute}})
	e := newEndpoint("a")
	s.add(e, nil)
	connect := func() int {
		s.update(e, balancer.SubConnState{ConnectivityState: connectivity.TransientFailure})
		s.update(e, balancer.SubConnState{ConnectivityState: connectivity.Ready})
		return e.generation
	}
	first, second := connect(), connect()
	for generation, want := range map[int]bool{first: false, second: true} {
		e.rightService = false
		if current, _ := s.RecordProbe(e, generation, RightService); current != want || e.rightService != want {
			t.Errorf("a probe of connection %d of 2 is used: %t", generation, !want)
		}
	}
}
