package endpoints

import (
	"context"
	"time"

	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/balancer/base"
	"google.golang.org/grpc/resolver"
)

const (
	// leastBusy is the name of the load-balancing policy.
	leastBusy = "opsgate_least_busy"
	// serviceConfig is the service configuration of all connections. Calls go to all instances of a
	// service that are connected and healthy (grpc.health.v1). An instance without the health
	// protocol counts as healthy. The health check is of the whole server, "", which every server
	// with the protocol supports; not all servers register their services by name.
	serviceConfig = `{"loadBalancingConfig":[{"` + leastBusy + `":{}}],"healthCheckConfig":{"serviceName":""}}`
	// failurePenalty is how long a failed call still counts as in flight.
	failurePenalty = time.Second
)

func init() { //nolint:gochecknoinits // gRPC looks balancers up by name and allows their registration in init only
	balancer.Register(leastBusyBuilder{})
}

// A Call is a unary call. Its context returns it for [CallKey].
type Call interface {
	// Team returns the team that the call is for, "" for none.
	Team() string
	// Ended is called when an attempt of the call at an endpoint has ended, and returns the result.
	// began is when the endpoint was picked.
	Ended(info balancer.DoneInfo, began time.Time) Result
}

// CallKey is the key of the [Call] in the context of a call.
type CallKey struct{}

// endpointKey is the key of the endpoint in the context of a probe.
type endpointKey struct{}

// WithEndpoint returns the context of a probe of an endpoint.
func WithEndpoint(ctx context.Context, e *Endpoint) context.Context {
	return context.WithValue(ctx, endpointKey{}, e)
}

// setKey is the key of the set in the attributes of a resolver's state.
type setKey struct{}

// leastBusyBuilder builds the balancer of each connection. gRPC finds it by its name.
type leastBusyBuilder struct{}

// Name implements [balancer.Builder].
func (leastBusyBuilder) Name() string { return leastBusy }

// Build implements [balancer.Builder].
func (leastBusyBuilder) Build(cc balancer.ClientConn, options balancer.BuildOptions) balancer.Balancer {
	b := &leastBusyBalancer{ClientConn: cc}
	b.Balancer = base.NewBalancerBuilder(leastBusy, b, base.Config{HealthCheck: true}).Build(b, options)
	return b
}

// leastBusyBalancer is between a connection and gRPC's base balancer, which connects to each
// address. It is
//
//   - the balancer of the connection: UpdateClientConnState, Close;
//   - the connection of the base balancer, to record the state of each endpoint: NewSubConn;
//   - the picker builder of the base balancer: Build.
type leastBusyBalancer struct {
	balancer.Balancer   // the base balancer
	balancer.ClientConn // the connection

	set *Set // nil before the first addresses
}

// UpdateClientConnState implements [balancer.Balancer].
func (b *leastBusyBalancer) UpdateClientConnState(s balancer.ClientConnState) error {
	var ok bool
	if b.set, ok = s.ResolverState.Attributes.Value(setKey{}).(*Set); !ok {
		return balancer.ErrBadResolverState
	}
	return b.Balancer.UpdateClientConnState(s)
}

// Close implements [balancer.Balancer].
func (b *leastBusyBalancer) Close() {
	b.Balancer.Close()
	if b.set != nil {
		b.set.close()
	}
}

// NewSubConn implements [balancer.ClientConn]. The base balancer calls it with one address.
func (b *leastBusyBalancer) NewSubConn(
	addresses []resolver.Address, options balancer.NewSubConnOptions,
) (balancer.SubConn, error) {
	e, listen := newEndpoint(addresses[0].Addr), options.StateListener
	options.StateListener = func(s balancer.SubConnState) {
		b.set.update(e, s)
		listen(s)
	}
	subConn, err := b.ClientConn.NewSubConn(addresses, options) //nolint:staticcheck // deprecated for several addresses
	if err == nil {
		b.set.add(e, subConn)
	}
	return subConn, err
}

// Build implements [base.PickerBuilder]. While an endpoint is ready, the picker is the set.
func (b *leastBusyBalancer) Build(info base.PickerBuildInfo) balancer.Picker {
	if len(info.ReadySCs) == 0 {
		return base.NewErrPicker(balancer.ErrNoSubConnAvailable)
	}
	return b.set
}

// Pick implements [balancer.Picker]. It picks the endpoint with the fewest calls of this gateway in
// flight, and round robin among equal endpoints. Calls to an endpoint that hangs stay in flight, so
// the endpoint soon gets no more calls. With round robin alone, it would get calls until it is
// ejected.
//
// Streams, which live for days without load, and probes do not count.
func (s *Set) Pick(info balancer.PickInfo) (balancer.PickResult, error) {
	c, isCall := info.Ctx.Value(CallKey{}).(Call)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.picks++
	picked := s.inUse[s.picks%len(s.inUse)]
	if !isCall {
		if probed, _ := info.Ctx.Value(endpointKey{}).(*Endpoint); probed != nil {
			picked = probed
		}
		return balancer.PickResult{SubConn: picked.subConn}, nil
	}
	team := c.Team()
	for i := 1; i < len(s.inUse); i++ {
		if other := s.inUse[(s.picks+i)%len(s.inUse)]; other.isBetterThan(picked, team) {
			picked = other
		}
	}
	p := s.pool.Get().(*pick) //nolint:forcetypeassert // see New
	p.endpoint, p.call, p.began = picked, c, time.Now()
	picked.inFlight++
	picked.began(team, p.began)
	return balancer.PickResult{SubConn: picked.subConn, Done: p.done}, nil
}

// isBetterThan reports whether a call of a team should go to e and not to the other endpoint.
func (e *Endpoint) isBetterThan(other *Endpoint, team string) bool {
	if elsewhere := e.calls[team].preferOthers(); elsewhere != other.calls[team].preferOthers() {
		return !elsewhere
	}
	return e.inFlight < other.inFlight
}

// A pick is a call at an endpoint. Picks are pooled, which saves the allocation of done.
type pick struct {
	endpoint *Endpoint
	call     Call
	began    time.Time
	done     func(balancer.DoneInfo)
}

func (s *Set) newPick() any {
	p := new(pick)
	p.done = func(info balancer.DoneInfo) {
		e, c, began := p.endpoint, p.call, p.began
		p.endpoint, p.call = nil, nil
		s.pool.Put(p)
		s.end(e, c, began, info)
	}
	return p
}
