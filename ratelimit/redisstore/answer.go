package redisstore

import (
	"encoding/binary"
	"fmt"
	"time"

	"opsgate/ratelimit"
)

const (
	answerTimeBytes = 7
	answerHeader    = answerTimeBytes + 1 // time and outcome
	discardedBit    = 0x80                // of the outcome: the value of the key was not an account
)

// decode decodes an answer of account.lua to any operation but a refund. The account shares the memory of the answer.
func decode(answer []byte, p *ratelimit.Policy) (d ratelimit.Decision, a ratelimit.Account, discarded bool, err error) {
	if len(answer) < answerHeader {
		return d, nil, false, fmt.Errorf("the answer has only %d bytes", len(answer))
	}
	at := binary.LittleEndian.Uint64(answer) & (1<<(8*answerTimeBytes) - 1)
	outcome := answer[answerTimeBytes]
	a, d, ok := p.Decision(answer[answerHeader:], time.UnixMicro(int64(at)), ratelimit.Outcome(outcome&^discardedBit))
	if !ok {
		return d, nil, false, fmt.Errorf("the account of %d bytes contradicts the outcome %d", len(answer)-answerHeader, outcome)
	}
	return d, a, outcome&discardedBit != 0, nil
}
