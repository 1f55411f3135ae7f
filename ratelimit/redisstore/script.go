package redisstore

import (
	"context"
	"crypto/sha1" //nolint:gosec // Redis identifies scripts by SHA-1
	_ "embed"
	"encoding/hex"
	"fmt"

	"github.com/redis/go-redis/v9"

	"opsgate/ratelimit"
)

//go:embed lua/account.lua
var script string

// hashOf returns the hash by which Redis identifies a script.
func hashOf(script string) string {
	hash := sha1.Sum([]byte(script)) //nolint:gosec // as above
	return hex.EncodeToString(hash[:])
}

// A call is a command that is sent once. A cluster client would repeat a command that timed out, though Redis may have executed it.
type call struct {
	*redis.StringCmd

	key  string
	sent bool // perhaps
}

// NoRetry implements a part of [redis.Cmder].
func (*call) NoRetry() bool { return true }

// Args implements a part of [redis.Cmder]. The client calls it when it writes the command to a connection.
func (c *call) Args() []any {
	c.sent = true
	return c.StringCmd.Args()
}

// run runs the script on a key and returns its answer. If Redis does not have the script, it has executed nothing, and run repeats the call
// with the script.
func (s *Store) run(ctx context.Context, key string, args ...any) ([]byte, error) {
	answer, err := s.send(ctx, key, append([]any{"evalsha", s.scriptHash, "1", key}, args...))
	if redis.HasErrorPrefix(err, "NOSCRIPT") {
		s.metrics.reloads.Inc()
		return s.send(ctx, key, append([]any{"eval", script, "1", key}, args...))
	}
	return answer, err
}

// send sends a command on a key and returns its answer.
func (s *Store) send(ctx context.Context, key string, command []any) ([]byte, error) {
	c := &call{StringCmd: redis.NewStringCmd(ctx, command...), key: key}
	c.SetFirstKeyPos(3)
	err := s.process(ctx, c)
	if err == nil {
		return c.Bytes()
	}
	if !c.sent {
		err = fmt.Errorf("%w: %w", ratelimit.ErrNotSent, err)
	}
	return nil, err
}
