package endpoints

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"time"

	"opsgate/internal/logging"

	"google.golang.org/grpc"
	"google.golang.org/grpc/resolver"
)

// When a name is looked up.
const (
	// lookupInterval is the time from one lookup of a name to the next.
	lookupInterval = 10 * time.Second
	// minLookupInterval replaces lookupInterval after a connection broke, and while no address is
	// known.
	minLookupInterval = time.Second
)

// defaultNameServerPort is the port of a name server in dns://server/name:port without a port.
const defaultNameServerPort = "53"

// staticScheme is the scheme of lists of addresses: static:///a:9000,b:9000.
const staticScheme = "static"

// DialOptions returns the options of a connection to the address: the resolvers and the balancer.
// The resolvers of names and of lists of addresses are this package's, all others are gRPC's.
func (s *Set) DialOptions(address string) []grpc.DialOption {
	static := staticBuilder{}
	if s.options.TLS != nil {
		static.serverName = s.options.TLS.ServerName
	}
	names := dnsBuilder{interval: s.options.Intervals.Lookup, minInterval: s.options.Intervals.MinLookup}
	builders := []resolver.Builder{s.attachTo(static), s.attachTo(names)}
	scheme, _, _ := strings.Cut(address, ":")
	// gRPC's builder of the scheme, such as unix. gRPC uses the first builder of a scheme, so for
	// dns it uses this package's.
	if registered := resolver.Get(scheme); registered != nil {
		builders = append(builders, s.attachTo(registered))
	}
	return []grpc.DialOption{grpc.WithResolvers(builders...), grpc.WithDefaultServiceConfig(serviceConfig)}
}

// attachTo returns a builder whose resolvers pass the set to the balancer, in the attributes
// of their states. gRPC creates balancers itself, and passes them nothing else that belongs to one
// connection.
func (s *Set) attachTo(b resolver.Builder) resolver.Builder {
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

// attachedBuilder is a builder to which a set is attached.
type attachedBuilder struct {
	resolver.Builder

	set *Set
}

// Build implements [resolver.Builder].
func (b attachedBuilder) Build(
	target resolver.Target, cc resolver.ClientConn, o resolver.BuildOptions,
) (resolver.Resolver, error) {
	return b.Builder.Build(target, attachedConn{cc, b.set}, o)
}

// attachedConn attaches a set to the states that a resolver returns.
type attachedConn struct {
	resolver.ClientConn

	set *Set
}

// UpdateState implements [resolver.ClientConn].
func (c attachedConn) UpdateState(s resolver.State) error {
	c.set.lookups.Succeed()
	s.Attributes = s.Attributes.WithValue(setKey{}, c.set)
	return c.ClientConn.UpdateState(s)
}

// ReportError implements [resolver.ClientConn].
func (c attachedConn) ReportError(err error) {
	c.set.options.FailedLookups.Inc()
	c.set.lookups.Fail(errors.New(logging.Truncate(err.Error(), maxCause)))
	c.ClientConn.ReportError(err)
}

// A FailedLookup is why the name of a service does not resolve. The addresses of the last
// successful lookup stay in use.
type FailedLookup struct {
	Since time.Time // the first failure after the last successful lookup
	Cause string    // of the last failure, with the name; "no such host" for NXDOMAIN
}

// FailedLookup returns nil unless the last lookup of the name failed.
func (s *Set) FailedLookup() *FailedLookup {
	since, cause := s.lookups.Failing()
	if cause == nil {
		return nil
	}
	return &FailedLookup{since, cause.Error()}
}

// staticBuilder resolves a list of addresses. Names in it are resolved for each attempt to connect.
type staticBuilder struct {
	serverName string // in the certificates of all servers; "" for the host of each
}

// Scheme implements [resolver.Builder].
func (staticBuilder) Scheme() string { return staticScheme }

// Build implements [resolver.Builder].
func (b staticBuilder) Build(
	target resolver.Target, cc resolver.ClientConn, _ resolver.BuildOptions,
) (resolver.Resolver, error) {
	var addresses []resolver.Address
	for address := range strings.SplitSeq(target.Endpoint(), ",") {
		if _, _, err := net.SplitHostPort(address); err != nil {
			return nil, fmt.Errorf("address in a static list: %w", err)
		}
		a := resolver.Address{Addr: address}
		// Without a server name, gRPC would verify each certificate against the whole list. The
		// credentials may have one name for all servers.
		if b.serverName == "" {
			a.ServerName = address
		}
		addresses = append(addresses, a)
	}
	return noResolver{}, cc.UpdateState(resolver.State{Addresses: addresses})
}

// noResolver is the resolver of addresses that do not change.
type noResolver struct{}

func (noResolver) ResolveNow(resolver.ResolveNowOptions) {}
func (noResolver) Close()                                {}

// dnsBuilder resolves a name. It differs from gRPC's resolver in three ways: it looks the name up
// regularly and not only after a connection broke; it looks the name up at most every second and
// not every 30 seconds; an answer without addresses does not close connections.
type dnsBuilder struct{ interval, minInterval time.Duration }

// Scheme implements [resolver.Builder].
func (dnsBuilder) Scheme() string { return "dns" }

// Build implements [resolver.Builder].
func (b dnsBuilder) Build(
	target resolver.Target, cc resolver.ClientConn, _ resolver.BuildOptions,
) (resolver.Resolver, error) {
	host, port, err := net.SplitHostPort(target.Endpoint())
	if err != nil {
		return nil, fmt.Errorf("name of a service: %w", err)
	}
	if net.ParseIP(host) != nil {
		return noResolver{}, cc.UpdateState(resolver.State{Addresses: []resolver.Address{{Addr: target.Endpoint()}}})
	}
	r := &dnsResolver{dnsBuilder: b, host: host, port: port, cc: cc, dns: newNetResolver(target.URL.Host),
		wake: make(chan struct{}, 1)}
	var ctx context.Context
	ctx, r.stop = context.WithCancel(context.Background())
	r.running.Go(func() { r.run(ctx) })
	return r, nil
}

// newNetResolver returns a resolver that queries a name server, or for "" the name servers of the
// system.
func newNetResolver(server string) *net.Resolver {
	if server != "" {
		if _, _, err := net.SplitHostPort(server); err != nil {
			server = net.JoinHostPort(strings.Trim(server, "[]"), defaultNameServerPort)
		}
	}
	// Go's resolver waits for an answer even after the context ends, which would delay the stop of
	// a gateway. Closing the connection ends the wait.
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, network, cmp.Or(server, address))
		if err == nil {
			context.AfterFunc(ctx, func() { _ = conn.Close() })
		}
		return conn, err
	}}
}

// A dnsResolver looks up the addresses of a name until it is closed.
type dnsResolver struct {
	dnsBuilder

	host, port string
	cc         resolver.ClientConn
	dns        *net.Resolver
	known      bool          // a lookup has returned addresses
	wake       chan struct{} // requests a lookup
	stop       context.CancelFunc
	running    sync.WaitGroup
}

// ResolveNow implements [resolver.Resolver]. gRPC calls it when a connection breaks or cannot be
// made.
func (r *dnsResolver) ResolveNow(resolver.ResolveNowOptions) {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// Close implements [resolver.Resolver].
func (r *dnsResolver) Close() {
	r.stop()
	r.running.Wait()
}

func (r *dnsResolver) run(ctx context.Context) {
	for {
		earliest, next := time.After(r.minInterval), time.After(r.interval) // from the start of the lookup
		r.lookup(ctx)
		select {
		case <-earliest:
		case <-ctx.Done():
			return
		}
		if !r.known {
			continue
		}
		select {
		case <-r.wake:
		case <-next:
		case <-ctx.Done():
			return
		}
	}
}

// lookup looks the name up, and passes its addresses to gRPC. If the lookup fails or returns no
// address, the addresses stay.
func (r *dnsResolver) lookup(ctx context.Context) {
	lookupCtx, cancel := context.WithTimeout(ctx, r.interval)
	defer cancel()
	hosts, err := r.dns.LookupHost(lookupCtx, r.host)
	if ctx.Err() != nil {
		return // closed
	}
	if err != nil || len(hosts) == 0 {
		r.cc.ReportError(cmp.Or(err, errors.New("the name has no address")))
		return
	}
	addresses := make([]resolver.Address, len(hosts))
	for i, host := range hosts {
		addresses[i].Addr = net.JoinHostPort(host, r.port)
	}
	r.known = true
	_ = r.cc.UpdateState(resolver.State{Addresses: addresses}) // it fails only for a balancer that rejects addresses
}
