package wiring

import "context"

// Reload reads the configuration and applies it, as on a signal. It returns the error of the reload.
func (e *Edge) Reload(ctx context.Context, why string) error {
	return e.reloader.reload(ctx, trigger{why: why})
}
