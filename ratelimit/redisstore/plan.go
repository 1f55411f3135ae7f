package redisstore

import (
	"encoding/binary"
	"math"
	"math/bits"
	"strconv"
	"strings"
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
	signature any   // what an account begins with
	form      any   // of an account's head, as Lua's struct has it
	numbers   any   // see numbersOf
	answer    any   // the form of the answer
	ttl       any   // ms that an account is kept: the longest window and a bucket
	order     []int // of the limits in scripts and accounts: those that are enforced, then those in shadow
}

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
	var groups [][]ratelimit.Limit // those that are enforced, and those in shadow if there are any
	var longest int64
	for k, i := range pl.order {
		if k == 0 || limits[i].Shadow != limits[pl.order[k-1]].Shadow {
			groups = append(groups, nil)
		}
		groups[len(groups)-1] = append(groups[len(groups)-1], limits[i])
		longest = max(longest, micros(limits[i].Per))
	}
	enforced := len(groups[0])
	signature := []byte{version, byte(enforced), byte(len(limits) - enforced)}
	for _, i := range pl.order {
		signature = binary.LittleEndian.AppendUint32(signature, uint32(limits[i].Requests))
		signature = append(signature, binary.LittleEndian.AppendUint64(nil, uint64(micros(limits[i].Per)))[:6]...)
	}
	form, numbers := numbersOf(groups)
	packed := make([]byte, 0, 8*len(numbers))
	for _, n := range numbers {
		packed = binary.LittleEndian.AppendUint64(packed, math.Float64bits(float64(n)))
	}
	pl.signature, pl.form, pl.numbers = string(signature), form, string(packed)
	pl.answer = "<dddBB" + strings.Repeat("I4d", len(limits))
	if expire {
		pl.ttl = strconv.FormatInt((longest+width(longest))/1000+1, 10)
	}
	return pl
}

// numbersOf returns the form of an account's head and what the script must know of the limits: how many groups of limits there
// are, the bytes of the head and of all rings; of each group the number of its limits, the length of a tick, the longest exact
// window and the number of its rings; and of each limit its requests, its window, the width of its buckets, or 0 for an exact
// one, and the bits of a count. Times are in µs.
func numbersOf(groups [][]ratelimit.Limit) (headForm string, numbers []int64) {
	const headBytes, groupBytes, ringBytes, pad = 2 * 8, 2*8 + 2*4 + 2, 2 + 4, 4
	head, body := int64(headBytes), int64(0)
	var form strings.Builder
	form.WriteString("<dd")
	for _, limits := range groups {
		var each []int64
		var span, rings int64
		for _, l := range limits {
			per := micros(l.Per)
			if l.Requests <= ratelimit.MaxExact {
				span = max(span, per)
				each = append(each, int64(l.Requests), per, 0, 0)
				continue
			}
			count := int64(bits.Len(uint(l.Requests)))
			rings++
			body += (buckets*count+7)/8 + pad
			each = append(each, int64(l.Requests), per, width(per), count)
		}
		form.WriteString("ddI4I4BB" + strings.Repeat("BBI4", int(rings)))
		head += groupBytes + ringBytes*rings
		numbers = append(append(numbers, int64(len(limits)), 1+span>>tickBits, span, rings), each...)
	}
	return form.String(), append([]int64{int64(len(groups)), head, body}, numbers...)
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
