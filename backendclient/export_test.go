package backendclient

import (
	"time"

	"google.golang.org/grpc"
)

// ConnectionOf returns the connection to the service with the given full name, for calls of methods by name.
func ConnectionOf(c *Clients, fullName string) *grpc.ClientConn {
	for _, s := range services() {
		if s.description.ServiceName == fullName {
			return c.upstreams[s.name].connection.Load().grpc
		}
	}
	return nil
}

// Quicken shortens the intervals of clients.
func Quicken(o *Options) {
	o.timing = timing{ejection: 200 * time.Millisecond, penalty: time.Millisecond, lookUp: 50 * time.Millisecond, minLookUp: 5 * time.Millisecond}
}

// LookUpEvery replaces the interval of look-ups.
func LookUpEvery(o *Options, d time.Duration) { o.timing.lookUp = d }
