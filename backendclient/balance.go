package backendclient

import (
	"sync/atomic"
	"time"

	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/balancer/base"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

const (
	// leastBusy is the name of the load-balancing policy.
	leastBusy = "opsgate_least_busy"
	// failurePenalty is how long a failed call still counts as in flight.
	failurePenalty = time.Second
)

func init() { //nolint:gochecknoinits // gRPC looks balancers up by name and allows their registration in init only
	balancer.Register(base.NewBalancerBuilder(leastBusy, pickerBuilder{}, base.Config{HealthCheck: true}))
}

// pickerBuilder makes a picker each time the set of available backends changes.
type pickerBuilder struct{}

// Build implements [base.PickerBuilder].
func (pickerBuilder) Build(info base.PickerBuildInfo) balancer.Picker {
	if len(info.ReadySCs) == 0 {
		return base.NewErrPicker(balancer.ErrNoSubConnAvailable)
	}
	p := &picker{backends: make([]*backend, 0, len(info.ReadySCs))}
	for connection := range info.ReadySCs {
		b := &backend{connection: connection}
		b.done = b.onDone
		p.backends = append(p.backends, b)
	}
	return p
}

// A picker picks the backend with the fewest calls of this gateway in flight, and round robin among equals. Calls to a backend that hangs
// stay in flight, so it soon gets no more of them. Round robin would send it calls until keepalive detects the dead connection.
type picker struct {
	backends []*backend
	calls    atomic.Uint32
}

// A backend is an instance of a service that is connected and healthy.
type backend struct {
	connection balancer.SubConn
	inFlight   atomic.Int32
	done       func(balancer.DoneInfo)
}

// Pick implements [balancer.Picker].
func (p *picker) Pick(info balancer.PickInfo) (balancer.PickResult, error) {
	n := uint32(len(p.backends))
	first := p.calls.Add(1)
	picked := p.backends[first%n]
	fewest := picked.inFlight.Load()
	for i := uint32(1); i < n && fewest > 0; i++ {
		other := p.backends[(first+i)%n]
		if inFlight := other.inFlight.Load(); inFlight < fewest {
			picked, fewest = other, inFlight
		}
	}
	if _, hasDeadline := info.Ctx.Deadline(); !hasDeadline { // a stream, which lives for days without load
		return balancer.PickResult{SubConn: picked.connection}, nil
	}
	picked.inFlight.Add(1)
	return balancer.PickResult{SubConn: picked.connection, Done: picked.done}, nil
}

// onDone ends a call. A failure counts as in flight for the failurePenalty: otherwise a backend that fails at once would seem the least
// busy.
func (b *backend) onDone(info balancer.DoneInfo) {
	switch status.Code(info.Err) {
	case codes.Unavailable, codes.DeadlineExceeded, codes.Internal, codes.Unknown, codes.DataLoss, codes.Unauthenticated:
		time.AfterFunc(failurePenalty, func() { b.inFlight.Add(-1) })
	default:
		b.inFlight.Add(-1)
	}
}
