package redisstore

import (
	"encoding/binary"
	"fmt"
	"math"
	"time"

	"opsgate/ratelimit"
)

const (
	answerHead  = 3*8 + 2 // time, serial, wait; who refuses, who would in shadow
	answerLimit = 4 + 8   // what remains, for how long
)

// decision reads the answer of decide.lua.
func (pl *plan) decision(b []byte) (ratelimit.Decision, error) {
	if len(b) != answerHead+answerLimit*len(pl.order) {
		return ratelimit.Decision{}, fmt.Errorf("redis: a decision over %d limits of %d bytes", len(pl.order), len(b))
	}
	denied, shadowed := int(b[24]), int(b[25])
	if denied > len(pl.order) || shadowed > len(pl.order) {
		return ratelimit.Decision{}, fmt.Errorf("redis: a decision by limits %d and %d of %d", denied, shadowed, len(pl.order))
	}
	d := ratelimit.Decision{
		Allowed: denied == 0, Denied: -1, Shadowed: -1,
		At:         time.UnixMicro(number(b)),
		Serial:     uint64(number(b[8:])),
		RetryAfter: time.Duration(number(b[16:])) * time.Microsecond,
	}
	if denied > 0 {
		d.Denied = pl.order[denied-1]
	}
	if shadowed > 0 {
		d.Shadowed = pl.order[shadowed-1]
	}
	for _, i := range pl.order {
		b = b[answerLimit:]
		d.Budgets[i] = ratelimit.Budget{
			Remaining: int(binary.LittleEndian.Uint32(b[answerHead-answerLimit:])),
			Reset:     time.Duration(number(b[answerHead-answerLimit+4:])) * time.Microsecond,
		}
	}
	return d, nil
}

// number reads a whole number that Lua wrote as its only kind of number.
func number(b []byte) int64 { return int64(math.Float64frombits(binary.LittleEndian.Uint64(b))) }
