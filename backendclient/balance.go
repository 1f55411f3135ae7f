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
	// leastBusy is the name of how calls are spread over the processes of a service.
	leastBusy = "opsgate_least_busy"
	// grudge is how long a call that failed still counts as one that its process is busy with.
	grudge = time.Second
)

func init() { //nolint:gochecknoinits // the library knows balancers by name, and takes them at this time alone
	balancer.Register(base.NewBalancerBuilder(leastBusy, pickers{}, base.Config{HealthCheck: true}))
}

// pickers makes a picker whenever a process comes or goes.
type pickers struct{}

// Build implements [base.PickerBuilder].
func (pickers) Build(info base.PickerBuildInfo) balancer.Picker {
	if len(info.ReadySCs) == 0 {
		return base.NewErrPicker(balancer.ErrNoSubConnAvailable)
	}
	p := &picker{processes: make([]*process, 0, len(info.ReadySCs))}
	for connection := range info.ReadySCs {
		up := &process{connection: connection}
		up.done = up.ended
		p.processes = append(p.processes, up)
	}
	return p
}

// A picker gives each call to the process that has the fewest of ours to answer, and in turn to those that have equally few. A process
// that hangs soon has the most and gets no more. Were it called in its turn, it would take a third of all calls with it, or
// all of them where callers are so few that each of them comes to wait for it, until its connection is found dead.
type picker struct {
	processes []*process
	calls     atomic.Uint32
}

// A process is one that is up and healthy.
type process struct {
	connection balancer.SubConn
	busy       atomic.Int32 // with so many calls
	done       func(balancer.DoneInfo)
}

// Pick implements [balancer.Picker].
func (p *picker) Pick(info balancer.PickInfo) (balancer.PickResult, error) {
	n := uint32(len(p.processes))
	first := p.calls.Add(1)
	picked := p.processes[first%n]
	least := picked.busy.Load()
	for i := uint32(1); i < n && least > 0; i++ {
		other := p.processes[(first+i)%n]
		if busy := other.busy.Load(); busy < least {
			picked, least = other, busy
		}
	}
	if _, ends := info.Ctx.Deadline(); !ends { // a stream, which lives for days and is no work
		return balancer.PickResult{SubConn: picked.connection}, nil
	}
	picked.busy.Add(1)
	return balancer.PickResult{SubConn: picked.connection, Done: picked.done}, nil
}

// ended is told of the end of each call. A process that fails at once would seem to be the least busy of all.
func (p *process) ended(how balancer.DoneInfo) {
	switch status.Code(how.Err) {
	case codes.Unavailable, codes.DeadlineExceeded, codes.Internal, codes.Unknown, codes.DataLoss, codes.Unauthenticated:
		time.AfterFunc(grudge, func() { p.busy.Add(-1) })
	default:
		p.busy.Add(-1)
	}
}
