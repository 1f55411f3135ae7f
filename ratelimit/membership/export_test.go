package membership

import "context"

// ReadEviction reads the eviction, as the first heartbeat does.
func (g *Gateways) ReadEviction(ctx context.Context) error { return g.readEviction(ctx) }

// Heartbeat sends a heartbeat, as Run does at an interval.
func (g *Gateways) Heartbeat(ctx context.Context) { g.heartbeat(ctx) }
