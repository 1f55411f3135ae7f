package authn

import (
	"log/slog"
	"net/netip"
	"sync/atomic"
	"time"
)

// calmAfter is for how long no look-up must have been refused for the shedding to be over.
const calmAfter = 10 * time.Second

// A shedding tells the log when look-ups begin to be refused and when that is over, and nothing in between.
type shedding struct {
	logger  *slog.Logger
	refused atomic.Int64 // since it began; 0 while none is
}

// refuse notes that a request of the network is refused. Limit is how many look-ups may be in flight.
func (s *shedding) refuse(limit int, network netip.Prefix) {
	if s.refused.Add(1) == 1 {
		s.logger.Warn("too many unknown tokens at once; some are refused unasked",
			slog.Int("max_look_ups", limit), slog.String("first_refused", network.String()))
		s.endOnceCalm(1)
	}
}

func (s *shedding) endOnceCalm(seen int64) {
	time.AfterFunc(calmAfter, func() {
		if s.refused.CompareAndSwap(seen, 0) {
			s.logger.Info("unknown tokens are looked up again", slog.Int64("refused", seen))
			return
		}
		s.endOnceCalm(s.refused.Load())
	})
}
