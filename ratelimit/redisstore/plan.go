package redisstore

import (
	"encoding/binary"
	"math"
	"math/bits"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"opsgate/ratelimit"
)

const (
	version  = 1 // of the form of accounts
	buckets  = 61
	tickBits = 30
	maxPlans = 10_000
)

// A plan is a policy as the scripts are told of it.
type plan struct {
	policy    *ratelimit.Policy
	signature any // what an account begins with
	numbers   any // see numbersOf
	ttl       any // ms that an account is kept: the longest window and a bucket
	order     []int
}

// order of the limits in scripts and accounts: those that are enforced, then those in shadow.
func inOrder(limits []ratelimit.Limit) []int {
	var enforced, shadow []int
	for i, l := range limits {
		if l.Shadow {
			shadow = append(shadow, i)
		} else {
			enforced = append(enforced, i)
		}
	}
	return append(enforced, shadow...)
}

func newPlan(p *ratelimit.Policy, expire bool) *plan {
	limits := p.Limits()
	pl := &plan{policy: p, order: inOrder(limits), ttl: ""}
	var groups [2][]ratelimit.Limit
	var longest int64
	for _, i := range pl.order {
		of := 0
		if limits[i].Shadow {
			of = 1
		}
		groups[of] = append(groups[of], limits[i])
		longest = max(longest, micros(limits[i].Per))
	}
	signature := []byte{version, byte(len(groups[0])), byte(len(groups[1]))}
	numbers := []float64{1}
	if len(groups[1]) > 0 {
		numbers[0] = 2
	}
	for _, g := range groups {
		for _, l := range g {
			signature = binary.LittleEndian.AppendUint32(signature, uint32(l.Requests))
			signature = append(signature, binary.LittleEndian.AppendUint64(nil, uint64(micros(l.Per)))[:6]...)
		}
		if len(g) > 0 {
			numbers = append(numbers, numbersOf(g)...)
		}
	}
	packed := make([]byte, 0, 8*len(numbers))
	for _, n := range numbers {
		packed = binary.LittleEndian.AppendUint64(packed, math.Float64bits(n))
	}
	pl.signature, pl.numbers = string(signature), string(packed)
	if expire {
		pl.ttl = strconv.FormatInt((longest+width(longest))/1000+1, 10)
	}
	return pl
}

// numbersOf returns what the script must know of limits that are decided together: how many there are, the length of a tick, the
// longest exact window, the number of rings; and of each limit its requests, its window, the width of its buckets or 0 for an
// exact one, and the bits of a count. Times are in µs.
func numbersOf(limits []ratelimit.Limit) []float64 {
	var each []float64
	var span int64
	rings := 0
	for _, l := range limits {
		per := micros(l.Per)
		if l.Requests <= ratelimit.MaxExact {
			span = max(span, per)
			each = append(each, float64(l.Requests), float64(per), 0, 0)
		} else {
			rings++
			each = append(each, float64(l.Requests), float64(per), float64(width(per)), float64(bits.Len(uint(l.Requests))))
		}
	}
	return append([]float64{float64(len(limits)), float64(1 + span>>tickBits), float64(span), float64(rings)}, each...)
}

// micros rounds up, which errs on the strict side.
func micros(d time.Duration) int64 { return int64((d + time.Microsecond - 1) / time.Microsecond) }

func width(per int64) int64 { return (per + buckets - 2) / (buckets - 1) }

// plans remembers the plan of each policy. Policies come with a configuration, and one that is gone is forgotten with all others
// now and then.
type plans struct {
	expire bool
	byPtr  sync.Map // of *ratelimit.Policy
	n      atomic.Int64
}

func (ps *plans) of(p *ratelimit.Policy) *plan {
	if pl, ok := ps.byPtr.Load(p); ok {
		return pl.(*plan) //nolint:forcetypeassert // nothing else is put there
	}
	if ps.n.Add(1) > maxPlans {
		ps.byPtr.Clear()
		ps.n.Store(1)
	}
	pl := newPlan(p, ps.expire)
	ps.byPtr.Store(p, pl)
	return pl
}
