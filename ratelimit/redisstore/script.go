package redisstore

import (
	"context"
	_ "embed"
	"encoding/binary"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"opsgate/ratelimit"
	"opsgate/ratelimit/redisclient"
)

//go:embed lua/account.lua
var script string

// run runs the script on a key and returns its answer. If Redis does not have the script, it has
// executed nothing, and run repeats the call with the script.
func (s *Store) run(ctx context.Context, key string, args ...any) ([]byte, error) {
	answer, err := s.sendCommand(ctx, key, append([]any{"evalsha", s.scriptHash, "1", key}, args...))
	if redis.HasErrorPrefix(err, "NOSCRIPT") {
		s.metrics.reloads.Inc()
		return s.sendCommand(ctx, key, append([]any{"eval", script, "1", key}, args...))
	}
	return answer, err
}

// sendCommand sends a command on a key and returns its answer.
func (s *Store) sendCommand(ctx context.Context, key string, command []any) ([]byte, error) {
	c := redisclient.NewCall(ctx, key, command...)
	err := s.process(ctx, c)
	if err == nil {
		return c.Bytes()
	}
	if err = normalized(err); !c.MayHaveBeenSent() || isReply(err) {
		err = notExecuted{err}
	}
	return nil, err
}

const (
	answerHeader = 8    // bytes before the account: seven of the time, and the outcome
	discardedBit = 0x80 // of the outcome: the value of the key was not an account
)

// decode decodes an answer of account.lua to any operation but a refund. The account shares the
// memory of the answer.
func decode(answer []byte, p *ratelimit.Policy) (d ratelimit.Decision, a ratelimit.Account, discarded bool, err error) {
	if len(answer) < answerHeader {
		return d, nil, false, fmt.Errorf("the answer has only %d bytes", len(answer))
	}
	header := binary.LittleEndian.Uint64(answer)
	at, outcome := header&(1<<56-1), header>>56
	a, d, ok := p.Decision(answer[answerHeader:], time.UnixMicro(int64(at)), ratelimit.Outcome(outcome&^discardedBit))
	if !ok {
		return d, nil, false,
			fmt.Errorf("the account of %d bytes is not valid, or contradicts the outcome %d", len(answer)-answerHeader, outcome)
	}
	return d, a, outcome&discardedBit != 0, nil
}
