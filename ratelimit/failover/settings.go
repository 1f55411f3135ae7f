package failover

import (
	"sync"
	"sync/atomic"
	"time"

	"opsgate/ratelimit"
)

// A Mode says what becomes of requests while the shared store is away.
type Mode string

// The modes.
const (
	Local Mode = "local" // this process decides, by its part of every limit
	Allow Mode = "allow" // all are admitted, and not counted
	Deny  Mode = "deny"  // none can be decided: a *ratelimit.UnavailableError
)

// Settings are what can change while a store is in use. Zeros stand for the defaults.
type Settings struct {
	Mode       Mode          // Local by default
	Replicas   int           // gateways that divide the limits among them in mode Local; 1 by default
	ProbeEvery time.Duration // between looks for a shared store that is away, give or take a fifth; 500 ms by default
	ReturnOver time.Duration // over which tokens go back to a shared store that is back; a second by default
}

func (s Settings) withDefaults() Settings {
	if s.Mode == "" {
		s.Mode = Local
	}
	s.Replicas = max(1, s.Replicas)
	if s.ProbeEvery <= 0 {
		s.ProbeEvery = 500 * time.Millisecond
	}
	if s.ReturnOver <= 0 {
		s.ReturnOver = time.Second
	}
	return s
}

// others is by how much later other gateways may see that the shared store is back, as long as what they see matters.
func (s Settings) others() time.Duration {
	if s.Mode != Local {
		return 0
	}
	return s.ProbeEvery * 3 / 2
}

// maxShares is far more than a configuration has policies.
const maxShares = 10_000

// configured are settings, and the share that a gateway has of each policy under them.
type configured struct {
	Settings

	shares sync.Map // *ratelimit.Policy to *ratelimit.Policy
	known  atomic.Int64
}

// shareOf returns the part of a policy that this process decides by. Policies come with a configuration, so they are few; those
// that are gone are forgotten with all others now and then.
func (c *configured) shareOf(p *ratelimit.Policy) *ratelimit.Policy {
	if share, ok := c.shares.Load(p); ok {
		return share.(*ratelimit.Policy) //nolint:forcetypeassert // nothing else is put there
	}
	if c.known.Add(1) > maxShares {
		c.shares.Clear()
		c.known.Store(1)
	}
	share, _ := c.shares.LoadOrStore(p, p.Share(c.Replicas)) // one for all, or states would be laid out anew for each
	return share.(*ratelimit.Policy)                         //nolint:forcetypeassert // nothing else is put there
}
