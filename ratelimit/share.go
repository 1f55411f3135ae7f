package ratelimit

import (
	"fmt"
	"slices"
	"time"
)

// maxShareBytes is more than MaxStateBytes, as a limit that becomes small enough to be exact may need more.
const maxShareBytes = 2 * MaxStateBytes

// Share returns the policy of one of so many replicas, at least one, that do not know of each other: each limit admits its part,
// rounded up. Its first limits are those of p, in their order. Where rounding up would let the replicas together pass an enforced limit by
// more than a twentieth, another limit follows that holds the whole over as many intervals, if that is no longer than a limit may be and
// there is room for it: of three a second, each of two replicas admits two a second, and three in two seconds.
func (p *Policy) Share(replicas int) *Policy {
	limits := slices.Clone(p.limits)
	var of []int
	for i := range limits {
		of = append(of, i)
		limits[i].Requests = (limits[i].Requests + replicas - 1) / replicas
	}
	for i, whole := range p.limits {
		if whole.Shadow || limits[i].Requests*replicas*20 <= whole.Requests*21 || whole.Per > maxPer/time.Duration(replicas) {
			continue
		}
		longer := whole
		longer.Name += " of all replicas"
		longer.Per *= time.Duration(replicas)
		with := append(slices.Clone(limits), longer)
		if _, err := newPolicy(with, maxShareBytes); err == nil { // else there is no room, or a limit of that length already
			limits, of = with, append(of, i)
		}
	}
	share, err := newPolicy(limits, maxShareBytes)
	if err != nil {
		panic(fmt.Sprintf("ratelimit: limits are good and their parts are not: %v", err))
	}
	share.shareOf = of
	return share
}

// ShareOf returns which limit of the whole the i-th limit of a share is for.
func (p *Policy) ShareOf(i int) int { return p.shareOf[i] }
