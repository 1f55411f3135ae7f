package backendclient

import (
	"time"

	"google.golang.org/grpc"

	"opsgate/backendclient/endpoints"
	"opsgate/proto/contract"
)

// ConnectionOf returns the connection to the service with the given full name, for calls of methods
// by name.
func ConnectionOf(c *Clients, fullName string) *grpc.ClientConn {
	for _, s := range contract.Services() {
		if s.FullName == fullName {
			return c.upstreams[s.Name].connection.Load().grpc
		}
	}
	return nil
}

// Quicken shortens the intervals of clients.
func Quicken(o *Options) {
	o.intervals = intervals{
		Intervals: endpoints.Intervals{
			Ejection: 200 * time.Millisecond, Penalty: time.Millisecond, Lookup: 50 * time.Millisecond, MinLookup: 5 * time.Millisecond,
		},
		probe: 20 * time.Millisecond, probeTimeout: probeTimeout,
	}
}

// EjectFor replaces the length of a first ejection.
func EjectFor(o *Options, d time.Duration) { o.intervals.Ejection = d }

// ProbePatiently makes the timeout of a probe longer than any test.
func ProbePatiently(o *Options) {
	o.intervals = o.withDefaults().intervals
	o.intervals.probeTimeout = time.Hour
}

// LookupEvery replaces the interval of lookups.
func LookupEvery(o *Options, d time.Duration) { o.intervals.Lookup = d }
