package redisstore

import (
	"context"
	"time"
)

// SetSteadyAfter sets how long a subscription lasts before it is reported as working.
func (s *Store) SetSteadyAfter(d time.Duration) { s.steadyAfter = d }

// ReadEviction reads the eviction, as the first heartbeat does.
func (g *Gateways) ReadEviction(ctx context.Context) error { return g.readEviction(ctx) }

// Heartbeat sends a heartbeat, as Run does at an interval.
func (g *Gateways) Heartbeat(ctx context.Context) { g.heartbeat(ctx) }
