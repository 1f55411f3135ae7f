package backendclient

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/balancer/base"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/serviceconfig"
)

const (
	// leastBusy is the name of the load-balancing policy.
	leastBusy = "opsgate_least_busy"
	// failurePenalty is how long a failed call still counts as in flight.
	failurePenalty = time.Second
)

func init() { //nolint:gochecknoinits // gRPC looks balancers up by name and allows their registration in init only
	balancer.Register(&policy{connections: make(map[string]*endpoints)})
}

// policy is the load-balancing policy of all connections. gRPC creates balancers itself, and passes them nothing but the service
// configuration. So a connection's configuration contains a number, by which the policy finds the endpoints of the connection.
type policy struct {
	mu          sync.Mutex
	connections map[string]*endpoints // of connections that are being made
	made        int
}

// policyConfig is the configuration of the policy.
type policyConfig struct {
	serviceconfig.LoadBalancingConfig `json:"-"`

	Connection string `json:"connection"`
	endpoints  *endpoints
}

// serviceConfig returns the service configuration of a connection with the endpoints. It can be used once, until release is called.
func serviceConfig(s *endpoints) (text string, release func()) {
	p, ok := balancer.Get(leastBusy).(*policy)
	if !ok {
		panic("backendclient: another package has registered " + leastBusy)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.made++
	id := strconv.Itoa(p.made)
	p.connections[id] = s
	// Calls go to all instances of a service that are connected and healthy (grpc.health.v1). An instance without the health protocol counts
	// as healthy. The health check is of the whole server, "", which every server with the protocol supports; not all of them register their
	// services by name.
	const format = `{"loadBalancingConfig":[{%q:{"connection":%q}}],"healthCheckConfig":{"serviceName":""}}`
	return fmt.Sprintf(format, leastBusy, id), func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.connections, id)
	}
}

// Name implements [balancer.Builder].
func (*policy) Name() string { return leastBusy }

// ParseConfig implements [balancer.ConfigParser].
func (p *policy) ParseConfig(text json.RawMessage) (serviceconfig.LoadBalancingConfig, error) {
	c := new(policyConfig)
	if err := json.Unmarshal(text, c); err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if c.endpoints = p.connections[c.Connection]; c.endpoints == nil {
		return nil, errors.New("the policy is for connections of this package")
	}
	return c, nil
}

// Build implements [balancer.Builder]. The balancer is gRPC's base balancer, which connects to each address.
func (*policy) Build(cc balancer.ClientConn, options balancer.BuildOptions) balancer.Balancer {
	r := &recorder{ClientConn: cc}
	return &leastBusyBalancer{
		Balancer: base.NewBalancerBuilder(leastBusy, r, base.Config{HealthCheck: true}).Build(r, options), recorder: r,
	}
}

// leastBusyBalancer is a base balancer whose connections are recorded.
type leastBusyBalancer struct {
	balancer.Balancer

	recorder *recorder
}

// UpdateClientConnState implements [balancer.Balancer].
func (b *leastBusyBalancer) UpdateClientConnState(s balancer.ClientConnState) error {
	c, ok := s.BalancerConfig.(*policyConfig)
	if !ok {
		return balancer.ErrBadResolverState
	}
	b.recorder.endpoints = c.endpoints
	return b.Balancer.UpdateClientConnState(s)
}

// Close implements [balancer.Balancer].
func (b *leastBusyBalancer) Close() {
	b.Balancer.Close()
	if b.recorder.endpoints != nil {
		b.recorder.endpoints.close()
	}
}

// A recorder records the endpoints of a balancer, and makes its pickers.
type recorder struct {
	balancer.ClientConn

	endpoints *endpoints // nil before the first addresses
}

// NewSubConn implements [balancer.ClientConn]. The base balancer calls it with one address.
func (r *recorder) NewSubConn(addresses []resolver.Address, options balancer.NewSubConnOptions) (balancer.SubConn, error) {
	e, listen := r.endpoints.newEndpoint(addresses[0].Addr), options.StateListener
	options.StateListener = func(s balancer.SubConnState) {
		r.endpoints.update(e, s)
		listen(s)
	}
	connection, err := r.ClientConn.NewSubConn(addresses, options) //nolint:staticcheck // deprecated for several addresses
	if err == nil {
		r.endpoints.add(e, connection)
	}
	return connection, err
}

// Build implements [base.PickerBuilder].
func (r *recorder) Build(info base.PickerBuildInfo) balancer.Picker {
	if len(info.ReadySCs) == 0 {
		return base.NewErrPicker(balancer.ErrNoSubConnAvailable)
	}
	return r.endpoints.newPicker(info.ReadySCs)
}

// A picker picks the endpoint with the fewest calls of this gateway in flight, and round robin among equals. Calls to an endpoint that
// hangs stay in flight, so it soon gets no more of them. Round robin would send it calls until keepalive detects the dead connection.
type picker struct {
	inUse atomic.Pointer[[]*endpoint] // not empty
	calls atomic.Uint32
}

// Pick implements [balancer.Picker].
func (p *picker) Pick(info balancer.PickInfo) (balancer.PickResult, error) {
	endpoints := *p.inUse.Load()
	n := uint32(len(endpoints))
	first := p.calls.Add(1)
	picked := endpoints[first%n]
	fewest := picked.inFlight.Load()
	for i := uint32(1); i < n && fewest > 0; i++ {
		other := endpoints[(first+i)%n]
		if inFlight := other.inFlight.Load(); inFlight < fewest {
			picked, fewest = other, inFlight
		}
	}
	deadline, hasDeadline := info.Ctx.Deadline()
	if !hasDeadline { // a stream, which lives for days without load
		return balancer.PickResult{SubConn: picked.connection}, nil
	}
	picked.inFlight.Add(1)
	if time.Until(deadline) < minAttemptTime {
		return balancer.PickResult{SubConn: picked.connection, Done: picked.late}, nil
	}
	return balancer.PickResult{SubConn: picked.connection, Done: picked.done}, nil
}
