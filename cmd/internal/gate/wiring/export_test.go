package wiring

import "context"

// Reload reads the configuration and applies it, as on a signal. It returns the error of the reload.
func (g *Gateway) Reload(ctx context.Context, why string) error {
	return g.reloader.reload(ctx, trigger{why: why})
}
