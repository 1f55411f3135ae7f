package failover

import (
	"cmp"
	"time"

	"opsgate/ratelimit"
)

// maxGateways is the largest number of gateways that divide a limit. Shares count times over as many lengths, so accounts keep them.
const maxGateways = 10_000

// Settings can change while a store is in use. Zero values stand for the defaults.
type Settings struct {
	Mode       ratelimit.Mode // while the shared store is not in use; ModeLocal by default
	Gateways   int            // that divide the limits among them in ModeLocal; 1 by default, at most 10,000
	ProbeEvery time.Duration  // between probes of a shared store that is not in use, plus or minus a fifth; 500 ms by default
}

func (s Settings) withDefaults() Settings {
	s.Mode = cmp.Or(s.Mode, ratelimit.ModeLocal)
	s.Gateways = min(max(1, s.Gateways), maxGateways)
	s.ProbeEvery = cmp.Or(s.ProbeEvery, 500*time.Millisecond)
	return s
}

// pause returns how long this gateway decides after it has detected the end of an outage. By then, all other gateways have probed the
// shared store as well, at the latest after 6/5 of ProbeEvery, and have uploaded their admissions of each token that they have served
// since.
func (s Settings) pause() time.Duration {
	if s.Mode != ratelimit.ModeLocal {
		return 0 // admissions are not counted
	}
	return s.ProbeEvery * 3 / 2
}
