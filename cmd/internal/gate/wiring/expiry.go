package wiring

import (
	"slices"
	"time"

	"opsgate/cmd/internal/gate/config"
	"opsgate/ratelimit"
)

// expire applies the active configuration again without its expired limits. The caller holds r.mu.
func (r *reloader) expire() {
	before, now := r.active.snapshot.Load(), r.Clock()
	if first := config.NextExpiry(before.policies); first.IsZero() || now.Before(first) {
		return
	}
	next, err := r.builder.snapshot(before.loaded, now, before)
	if err != nil {
		// Each poll calls expire again while the error lasts. reportOnce logs the error only if its
		// text is not the one that was logged last.
		_ = r.reportRefused(trigger{why: "limits expired", automatic: true, reportOnce: true}, err)
		return
	}
	r.apply(before, next)
}

// expired returns the assignments in before that have expired and are not in after.
func expired(before, after *ratelimit.Policies, now time.Time) (list []*ratelimit.Assignment) {
	for _, a := range before.All() {
		sameKey := func(b *ratelimit.Assignment) bool { return b.Key == a.Key }
		if !a.Expires.IsZero() && !now.Before(a.Expires) && !slices.ContainsFunc(after.All(), sameKey) {
			list = append(list, a)
		}
	}
	return list
}
