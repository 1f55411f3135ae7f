package edge

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc/connectivity"

	"opsgate/authn"
	"opsgate/backendclient"
	"opsgate/cmd/internal/admin"
	"opsgate/cmd/internal/config"
	"opsgate/gateway"
	"opsgate/ratelimit"
)

// parts are what a gateway consists of.
type parts struct {
	clients       *backendclient.Clients
	authenticator *authn.Authenticator
	limiter       *ratelimit.Memory
	gateway       *gateway.Gateway
	admin         *admin.Admin
}

// build makes the parts, each from those before it.
func build(o Options) (_ *parts, err error) {
	registry := admin.NewRegistry(o.Build)
	p := &parts{limiter: ratelimit.NewMemory(ratelimit.MemoryOptions{})}
	if p.clients, err = dial(o, registry); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, p.close())
		}
	}()
	if p.authenticator, err = newAuthenticator(o, p.clients, registry); err != nil {
		return nil, err
	}
	if p.gateway, err = newGateway(o, p, registry); err != nil {
		return nil, err
	}
	p.admin = admin.New(admin.Options{
		Metrics:      registry,
		Dependencies: func() map[string]admin.Dependency { return dependencies(p.clients.States()) },
	})
	return p, nil
}

func (p *parts) close() error { return p.clients.Close() }

// background is what goes on beside the requests; each of it ends with its context.
func (p *parts) background() []func(context.Context) error {
	return []func(context.Context) error{p.authenticator.Run, p.limiter.Run}
}

func dial(o Options, registry prometheus.Registerer) (*backendclient.Clients, error) {
	u, calls := o.Config.Upstreams, o.Config.UpstreamCalls
	return backendclient.Dial(backendclient.Options{
		Upstreams: backendclient.Upstreams{
			Fleet:      backendclient.Upstream(u.Fleet),
			Monitoring: backendclient.Upstream(u.Monitoring),
			Incident:   backendclient.Upstream(u.Incident),
			Audit:      backendclient.Upstream(u.Audit),
			Identity:   backendclient.Upstream(u.Identity),
		},
		DeadlineMargin:   time.Duration(calls.DeadlineMargin),
		MaxResponseBytes: int(calls.MaxResponseBytes),
		Version:          o.Build.Version,
		Logger:           o.Logger,
		Registerer:       registry,
	})
}

func newAuthenticator(o Options, clients *backendclient.Clients, registry prometheus.Registerer) (*authn.Authenticator, error) {
	c := o.Config.Authn
	return authn.New(authn.Options{
		Format:        authn.TokenFormat{Prefix: o.Config.TokenPrefix},
		Identity:      clients.Identity,
		FreshFor:      time.Duration(c.FreshFor),
		StaleFor:      time.Duration(c.StaleFor),
		NegativeFor:   time.Duration(c.NegativeFor),
		LookUpTimeout: time.Duration(c.LookUpTimeout),
		MaxEntries:    c.MaxEntries,
		Logger:        o.Logger,
		Registerer:    registry,
	})
}

func newGateway(o Options, p *parts, registry prometheus.Registerer) (*gateway.Gateway, error) {
	policy, err := newPolicy(o.Config.RateLimit.Limits)
	if err != nil {
		return nil, err
	}
	policies, err := ratelimit.NewPolicies(ratelimit.Assignment{Policy: policy})
	if err != nil {
		return nil, fmt.Errorf("give every token its policy: %w", err)
	}
	metrics, err := gateway.NewMetrics(registry)
	if err != nil {
		return nil, err
	}
	return gateway.New(gateway.Options{
		Fleet:          p.clients.Fleet,
		Monitoring:     p.clients.Monitoring,
		Incident:       p.clients.Incident,
		Audit:          p.clients.Audit,
		Authenticator:  p.authenticator,
		Limiter:        p.limiter,
		Policies:       policies,
		Timeout:        time.Duration(o.Config.HTTP.RequestTimeout),
		MaxBodyBytes:   int64(o.Config.HTTP.MaxBodyBytes),
		TrustedProxies: prefixes(o.Config.TrustedProxies),
		QuietAccess:    !o.Config.Log.Access,
		Logger:         o.Logger,
		Metrics:        metrics,
	})
}

func newPolicy(limits []config.Limit) (*ratelimit.Policy, error) {
	list := make([]ratelimit.Limit, len(limits))
	for i, l := range limits {
		list[i] = ratelimit.Limit{Name: l.Name, Requests: l.Requests, Per: time.Duration(l.Per)}
	}
	policy, err := ratelimit.NewPolicy(list)
	if err != nil {
		return nil, fmt.Errorf("make the policy of limits: %w", err)
	}
	return policy, nil
}

func prefixes(networks []config.Network) []netip.Prefix {
	list := make([]netip.Prefix, len(networks))
	for i, n := range networks {
		list[i] = n.Prefix
	}
	return list
}

// dependencies says in words how the connections to the internal services stand.
func dependencies(states map[string]connectivity.State) map[string]admin.Dependency {
	words := map[connectivity.State]string{
		connectivity.Idle:             "idle",
		connectivity.Connecting:       "connecting",
		connectivity.Ready:            "ready",
		connectivity.TransientFailure: "unavailable",
		connectivity.Shutdown:         "closed",
	}
	list := make(map[string]admin.Dependency, len(states))
	for service, state := range states {
		list[service] = admin.Dependency{State: words[state], OK: state == connectivity.Ready}
	}
	return list
}
