package wiring

import (
	"context"
	"crypto/tls"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"opsgate/cmd/internal/gate/config"
	"opsgate/gateway"
	"opsgate/internal/tracing"
)

// NewTracing returns the provider of the traces of a service, or nil if tracing is disabled. If
// service is "", the service is the gateway.
func NewTracing(o Options, service string, registry prometheus.Registerer) (*tracing.Provider, error) {
	c := o.Loaded.Tracing
	headers, err := c.HeaderValues()
	if err != nil {
		return nil, fmt.Errorf("tracing.headers: %w", err)
	}
	tlsConfig, err := collectorTLS(c)
	if err != nil {
		return nil, fmt.Errorf("TLS to the trace collector: %w", err)
	}
	return tracing.New(tracing.Options{
		Endpoint: c.Endpoint, Headers: headers, TLS: tlsConfig,
		Service: service, Version: o.Build.Version, Logger: o.Logger, Registerer: registry,
	})
}

// collectorTLS returns the TLS configuration for the collector. It returns nil without TLS, and
// also if no files are configured, so that the library uses its default.
func collectorTLS(c config.Tracing) (*tls.Config, error) {
	endpoint, err := url.Parse(c.Endpoint)
	if err != nil || c.TLS == (config.TracingTLS{}) || !strings.HasSuffix(endpoint.Scheme, "s") { // https or grpcs
		return nil, err
	}
	return tlsFiles(config.ClientTLS{CAFile: c.TLS.CAFile, CertFile: c.TLS.CertFile, KeyFile: c.TLS.KeyFile}).Config()
}

// newTracer returns the tracer for a configuration, or nil if tracing is disabled.
func newTracer(p *tracing.Provider, c config.Config) gateway.Tracer {
	if p == nil {
		return nil
	}
	trust := map[config.ParentTrust]tracing.Trust{
		config.TrustNever: tracing.TrustNever, config.TrustProxies: tracing.TrustProxies,
		config.TrustAlways: tracing.TrustAlways,
	}
	return tracer{p.Tracer(tracing.Settings{
		Sample: c.Tracing.Sample.Fraction(), Trust: trust[c.Tracing.TrustParent], Proxies: prefixes(c.TrustedProxies),
		LiveTokenPrefix: liveTokenPrefix(c),
	})}
}

// A tracer adapts a tracing.Tracer to gateway.Tracer: for a request that is not recorded, it
// returns a nil interface.
type tracer struct{ tracer *tracing.Tracer }

// Start implements [gateway.Tracer].
func (t tracer) Start(ctx context.Context, req *http.Request, route string) (context.Context, gateway.Trace) {
	ctx, recorded := t.tracer.Trace(ctx, req, route)
	if recorded == nil {
		return ctx, nil
	}
	return ctx, recorded
}
