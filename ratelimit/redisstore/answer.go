package redisstore

import (
	"encoding/binary"
	"fmt"
	"time"

	"opsgate/ratelimit"
)

const (
	answerTimeBytes = 7
	answerHead      = answerTimeBytes + 1 // and the outcome
	discardedBit    = 0x80                // of the outcome: the value under the key was no account
)

// decode reads an answer of account.lua to anything but a refund. The account shares the memory of the answer.
func decode(answer []byte, p *ratelimit.Policy) (d ratelimit.Decision, a ratelimit.Account, discarded bool, err error) {
	if len(answer) < answerHead {
		return d, nil, false, fmt.Errorf("an answer of %d bytes", len(answer))
	}
	at := binary.LittleEndian.Uint64(answer) & (1<<(8*answerTimeBytes) - 1)
	outcome := answer[answerTimeBytes]
	a = answer[answerHead:]
	d, ok := p.Decision(a, time.UnixMicro(int64(at)), ratelimit.Outcome(outcome&^discardedBit))
	if !ok {
		return d, nil, false, fmt.Errorf("an account of %d bytes that does not agree with the outcome %d", len(a), outcome)
	}
	return d, a, outcome&discardedBit != 0, nil
}
