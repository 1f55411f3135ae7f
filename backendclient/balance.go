package backendclient

import (
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
	// with the protocol supports; not all of them register their services by name.
	serviceConfig = `{"loadBalancingConfig":[{"` + leastBusy + `":{}}],"healthCheckConfig":{"serviceName":""}}`
	// failurePenalty is how long a failed call still counts as in flight.
	failurePenalty = time.Second
)

func init() { //nolint:gochecknoinits // gRPC looks balancers up by name and allows their registration in init only
	balancer.Register(leastBusyBuilder{})
}

// endpointsKey is the key of the endpoints in the attributes of a resolver's state.
type endpointsKey struct{}

// attachTo returns a builder whose resolvers pass the endpoints to the balancer, in the attributes
// of their states. gRPC creates balancers itself, and passes them nothing else that belongs to one
// connection.
func (s *endpoints) attachTo(b resolver.Builder) resolver.Builder {
	attached := attachedBuilder{b, s}
	// attachedBuilder hides this optional interface, which gRPC looks for and the builder of unix
	// sockets has.
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
func (b attachedBuilder) Build(
	target resolver.Target, cc resolver.ClientConn, o resolver.BuildOptions,
) (resolver.Resolver, error) {
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

// leastBusyBalancer is between a connection and gRPC's base balancer, which connects to each
// address. It is
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
func (b *leastBusyBalancer) NewSubConn(
	addresses []resolver.Address, options balancer.NewSubConnOptions,
) (balancer.SubConn, error) {
	e, listen := newEndpoint(addresses[0].Addr), options.StateListener
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

// Build implements [base.PickerBuilder]. The endpoints are their own picker, while one of them is
// ready.
func (b *leastBusyBalancer) Build(info base.PickerBuildInfo) balancer.Picker {
	if len(info.ReadySCs) == 0 {
		return base.NewErrPicker(balancer.ErrNoSubConnAvailable)
	}
	return b.endpoints
}

// Pick implements [balancer.Picker]. It picks the endpoint with the fewest calls of this gateway in
// flight, and round robin among equals. Calls to an endpoint that hangs stay in flight, so it soon
// gets no more of them. Round robin would send it calls until it is ejected.
//
// Streams, which live for days without load, and probes do not count.
func (s *endpoints) Pick(info balancer.PickInfo) (balancer.PickResult, error) {
	c, isCall := info.Ctx.Value(callKey{}).(*callContext)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.picks++
	picked := s.inUse[s.picks%len(s.inUse)]
	if !isCall {
		if probed, _ := info.Ctx.Value(probedKey{}).(*endpoint); probed != nil {
			picked = probed
		}
		return balancer.PickResult{SubConn: picked.subConn}, nil
	}
	for i := 1; i < len(s.inUse); i++ {
		if other := s.inUse[(s.picks+i)%len(s.inUse)]; other.isBetterThan(picked, c.team) {
			picked = other
		}
	}
	p := s.pool.Get().(*pick) //nolint:forcetypeassert // see newEndpoints
	p.endpoint, p.call, p.began = picked, c, time.Now()
	picked.inFlight++
	picked.began(c.team, p.began)
	return balancer.PickResult{SubConn: picked.subConn, Done: p.done}, nil
}

// isBetterThan reports whether a call of a team should rather go to e than to the other endpoint.
func (e *endpoint) isBetterThan(other *endpoint, team string) bool {
	if elsewhere := e.calls[team].belongElsewhere(); elsewhere != other.calls[team].belongElsewhere() {
		return !elsewhere
	}
	return e.inFlight < other.inFlight
}

// A pick is a call at an endpoint. It is used again for another call after its end, which saves the
// allocation of done.
type pick struct {
	endpoint *endpoint
	call     *callContext
	began    time.Time
	done     func(balancer.DoneInfo)
}

func (s *endpoints) newPick() any {
	p := new(pick)
	p.done = func(info balancer.DoneInfo) {
		e, c, began := p.endpoint, p.call, p.began
		p.endpoint, p.call = nil, nil
		s.pool.Put(p)
		s.end(e, c, began, info)
	}
	return p
}
