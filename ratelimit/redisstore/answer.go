package redisstore

import (
	"encoding/binary"
	"fmt"
	"time"

	"opsgate/ratelimit"
)

const (
	answerHeader = 8    // bytes before the account: seven of the time, and the outcome
	discardedBit = 0x80 // of the outcome: the value of the key was not an account
)

// decode decodes an answer of account.lua to any operation but a refund. The account shares the memory of the answer.
func decode(answer []byte, p *ratelimit.Policy) (d ratelimit.Decision, a ratelimit.Account, discarded bool, err error) {
	if len(answer) < answerHeader {
		return d, nil, false, fmt.Errorf("the answer has only %d bytes", len(answer))
	}
	header := binary.LittleEndian.Uint64(answer)
	at, outcome := header&(1<<56-1), header>>56
	a, d, ok := p.Decision(answer[answerHeader:], time.UnixMicro(int64(at)), ratelimit.Outcome(outcome&^discardedBit))
	if !ok {
		return d, nil, false, fmt.Errorf("the account of %d bytes is not valid, or contradicts the outcome %d", len(answer)-answerHeader, outcome)
	}
	return d, a, outcome&discardedBit != 0, nil
}
