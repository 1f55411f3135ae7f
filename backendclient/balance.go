package backendclient

import (
	"sync/atomic"
	"time"

	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/balancer/base"
	"google.golang.org/grpc/resolver"
)

const (
	// leastBusy is the name of the load-balancing policy.
	leastBusy = "opsgate_least_busy"
	// serviceConfig is the service configuration of all connections. Calls go to all instances of a service that are connected and healthy
	// (grpc.health.v1). An instance without the health protocol counts as healthy. The health check is of the whole server, "", which every
	// server with the protocol supports; not all of them register their services by name.
	serviceConfig = `{"loadBalancingConfig":[{"` + leastBusy + `":{}}],"healthCheckConfig":{"serviceName":""}}`
	// failurePenalty is how long a failed call still counts as in flight.
	failurePenalty = time.Second
)

func init() { //nolint:gochecknoinits // gRPC looks balancers up by name and allows their registration in init only
	balancer.Register(leastBusyBuilder{})
}

// endpointsKey is the key of the endpoints in the attributes of a resolver's state.
type endpointsKey struct{}

// attachTo returns a builder whose resolvers pass the endpoints to the balancer, in the attributes of their states. gRPC creates balancers
// itself, and passes them nothing else that belongs to one connection.
func (s *endpoints) attachTo(b resolver.Builder) resolver.Builder {
	attached := attachedBuilder{b, s}
	// attachedBuilder hides this optional interface, which gRPC looks for and the builder of unix sockets has.
	if o, ok := b.(resolver.AuthorityOverrider); ok {
		return struct {
			resolver.Builder
			resolver.AuthorityOverrider
		}{attached, o}
	}
	return attached
}

// attachedBuilder is a builder to which endpoints are attached.
type attachedBuilder struct {
	resolver.Builder

	endpoints *endpoints
}

// Build implements [resolver.Builder].
func (b attachedBuilder) Build(target resolver.Target, cc resolver.ClientConn, o resolver.BuildOptions) (resolver.Resolver, error) {
	return b.Builder.Build(target, attachedConn{cc, b.endpoints}, o)
}

// attachedConn attaches endpoints to the states that a resolver returns.
type attachedConn struct {
	resolver.ClientConn

	endpoints *endpoints
}

// UpdateState implements [resolver.ClientConn].
func (c attachedConn) UpdateState(s resolver.State) error {
	c.endpoints.lookups.succeeded()
	s.Attributes = s.Attributes.WithValue(endpointsKey{}, c.endpoints)
	return c.ClientConn.UpdateState(s)
}

// ReportError implements [resolver.ClientConn].
func (c attachedConn) ReportError(err error) {
	c.endpoints.lookups.failed(err)
	c.ClientConn.ReportError(err)
}

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

// leastBusyBalancer is between a connection and gRPC's base balancer, which connects to each address. It is
//
//   - the balancer of the connection: UpdateClientConnState, Close;
//   - the connection of the base balancer, to record the state of each endpoint: NewSubConn;
//   - the picker builder of the base balancer: Build.
type leastBusyBalancer struct {
	balancer.Balancer   // the base balancer
	balancer.ClientConn // the connection

	endpoints *endpoints // nil before the first addresses
}

// UpdateClientConnState implements [balancer.Balancer].
func (b *leastBusyBalancer) UpdateClientConnState(s balancer.ClientConnState) error {
	var ok bool
	if b.endpoints, ok = s.ResolverState.Attributes.Value(endpointsKey{}).(*endpoints); !ok {
		return balancer.ErrBadResolverState
	}
	return b.Balancer.UpdateClientConnState(s)
}

// Close implements [balancer.Balancer].
func (b *leastBusyBalancer) Close() {
	b.Balancer.Close()
	if b.endpoints != nil {
		b.endpoints.close()
	}
}

// NewSubConn implements [balancer.ClientConn]. The base balancer calls it with one address.
func (b *leastBusyBalancer) NewSubConn(addresses []resolver.Address, options balancer.NewSubConnOptions) (balancer.SubConn, error) {
	e, listen := b.endpoints.newEndpoint(addresses[0].Addr), options.StateListener
	options.StateListener = func(s balancer.SubConnState) {
		b.endpoints.update(e, s)
		listen(s)
	}
	subConn, err := b.ClientConn.NewSubConn(addresses, options) //nolint:staticcheck // deprecated for several addresses
	if err == nil {
		b.endpoints.add(e, subConn)
	}
	return subConn, err
}

// Build implements [base.PickerBuilder]. It always returns the same picker while an endpoint is ready.
func (b *leastBusyBalancer) Build(info base.PickerBuildInfo) balancer.Picker {
	if len(info.ReadySCs) == 0 {
		return base.NewErrPicker(balancer.ErrNoSubConnAvailable)
	}
	return &b.endpoints.picker
}

// A picker picks the endpoint with the fewest calls of this gateway in flight, and round robin among equals. Calls to an endpoint that
// hangs stay in flight, so it soon gets no more of them. Round robin would send it calls until it is ejected.
type picker struct {
	methods map[string]*method          // of the service, by name
	inUse   atomic.Pointer[[]*endpoint] // nil before an endpoint was ready, then not empty
	picks   atomic.Uint32
}

// Pick implements [balancer.Picker].
func (p *picker) Pick(info balancer.PickInfo) (balancer.PickResult, error) {
	endpoints := *p.inUse.Load()
	n := uint32(len(endpoints))
	first := p.picks.Add(1)
	picked := endpoints[first%n]
	fewest := picked.inFlight.Load()
	for i := uint32(1); i < n && fewest > 0; i++ {
		other := endpoints[(first+i)%n]
		if inFlight := other.inFlight.Load(); inFlight < fewest {
			picked, fewest = other, inFlight
		}
	}
	deadline, hasDeadline := info.Ctx.Deadline()
	if !hasDeadline { // a stream, which lives for days without load, or a probe
		if probed, _ := info.Ctx.Value(probedKey{}).(*endpoint); probed != nil {
			picked = probed
		}
		return balancer.PickResult{SubConn: picked.subConn}, nil
	}
	picked.inFlight.Add(1)
	kind := callKind{
		namesResource: p.methods[methodName(info.FullMethodName)].namesResource,
		shortTimeout:  time.Until(deadline) < minAttemptTime,
	}
	return balancer.PickResult{SubConn: picked.subConn, Done: picked.done[kind]}, nil
}
