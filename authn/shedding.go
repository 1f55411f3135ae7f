package authn

import (
	"log/slog"
	"net/netip"
	"sync/atomic"
	"time"
)

// recoveryPeriod is the time without a rejected request after which shedding is over.
const recoveryPeriod = 10 * time.Second

// A shedLogger logs when shedding, which is the rejection of requests without a lookup, starts and when it is over.
type shedLogger struct {
	logger *slog.Logger
	count  atomic.Int64 // requests rejected since shedding started; 0 after its end was logged
}

// shed counts a rejected request of the network. Limit is the maximum number of lookups in flight.
func (s *shedLogger) shed(limit int, network netip.Prefix) {
	if s.count.Add(1) == 1 {
		s.logger.Warn("too many unknown tokens at once; some are rejected without a lookup",
			slog.Int("max_lookups", limit), slog.String("first_refused", network.String()))
		s.endAfterRecovery(1)
	}
}

// endAfterRecovery ends shedding after the first recoveryPeriod during which the count stays the same. Seen is the current count.
func (s *shedLogger) endAfterRecovery(seen int64) {
	time.AfterFunc(recoveryPeriod, func() {
		if s.count.CompareAndSwap(seen, 0) {
			s.logger.Info("unknown tokens are looked up again", slog.Int64("refused", seen))
			return
		}
		s.endAfterRecovery(s.count.Load())
	})
}
