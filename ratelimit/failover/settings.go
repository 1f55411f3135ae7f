package failover

import "time"

// A Mode is what decides on requests while the shared store is not in use.
type Mode string

// The modes.
const (
	Local Mode = "local" // this gateway, by its share of each limit
	Allow Mode = "allow" // every request is admitted, and not counted
	Deny  Mode = "deny"  // every request fails with a *ratelimit.UnavailableError
)

// Settings are what can change while a store is in use. Zero values stand for the defaults.
type Settings struct {
	Mode       Mode          // Local by default
	Replicas   int           // gateways that divide the limits among them in mode Local; 1 by default
	ProbeEvery time.Duration // between probes of a shared store that is not in use, plus or minus a fifth; 500 ms by default
}

func (s Settings) withDefaults() Settings {
	if s.Mode == "" {
		s.Mode = Local
	}
	s.Replicas = max(1, s.Replicas)
	if s.ProbeEvery <= 0 {
		s.ProbeEvery = 500 * time.Millisecond
	}
	return s
}

// pause is how much later than this gateway others may see that the shared store works, and upload what they admitted by themselves.
func (s Settings) pause() time.Duration {
	if s.Mode != Local {
		return 0 // nothing was admitted that counts
	}
	return s.ProbeEvery * 3 / 2
}
