package wiring

import (
	"slices"
	"time"

	"opsgate/ratelimit"
)

// expired returns the expired assignments that are in the policies before but not in the policies after.
func expired(before, after *ratelimit.Policies, now time.Time) (list []*ratelimit.Assignment) {
	for _, a := range before.All() {
		sameKey := func(b *ratelimit.Assignment) bool { return b.Key == a.Key }
		if !a.Expires.IsZero() && !now.Before(a.Expires) && !slices.ContainsFunc(after.All(), sameKey) {
			list = append(list, a)
		}
	}
	return list
}
