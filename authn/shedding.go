package authn

import (
	"log/slog"
	"sync/atomic"
	"time"
)

// underWay counts the look-ups under way. A checksum costs nothing to compute, so anybody can have strangers looked up; tokens that
// were confirmed here are counted apart, so that their look-ups need not wait for those.
type underWay struct {
	known, strangers atomic.Int64
}

// calmAfter is for how long no look-up must have been refused for the shedding to be over.
const calmAfter = 10 * time.Second

// A shedding tells the log when look-ups begin to be refused and when that is over, and nothing in between.
type shedding struct {
	logger  *slog.Logger
	refused atomic.Int64 // since it began; 0 while none is
}

// refuse notes that a look-up is refused, as limit of them are under way.
func (s *shedding) refuse(limit int) {
	if s.refused.Add(1) == 1 {
		s.logger.Warn("too many unknown tokens at once; some are refused unasked", slog.Int("look_ups_under_way", limit))
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
