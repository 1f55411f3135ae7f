package wiring

// Reload reads the configuration and applies it, as on a signal. It returns the error of the reload.
func (g *Gateway) Reload(why string) error {
	return g.reloader.reload(trigger{why: why})
}
