package edge

import (
	"slices"
	"time"

	"opsgate/ratelimit"
)

// ended returns what expired between two policies: it is in the first alone, and its time is over.
func ended(before, after *ratelimit.Policies, now time.Time) (list []*ratelimit.Assignment) {
	for _, a := range before.All() {
		there := func(b *ratelimit.Assignment) bool { return b.Key == a.Key }
		if !a.Expires.IsZero() && !now.Before(a.Expires) && !slices.ContainsFunc(after.All(), there) {
			list = append(list, a)
		}
	}
	return list
}
