package wiring

import "github.com/prometheus/client_golang/prometheus"

// Reload reads the configuration and applies it, as on a signal. It returns the error of the
// reload.
func (g *Gateway) Reload(why string) error {
	return g.reloader.reload(trigger{why: why})
}

// Registry returns the registry of the gateway's metrics.
func (g *Gateway) Registry() *prometheus.Registry { return g.registry }

// ClosePublicListener closes the public listener, as an error of the system does.
func (g *Gateway) ClosePublicListener() error { return g.public.Close() }
