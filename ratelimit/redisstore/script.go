package redisstore

import (
	"context"
	"crypto/sha1" //nolint:gosec // Redis identifies scripts by SHA-1
	_ "embed"
	"encoding/hex"

	"github.com/redis/go-redis/v9"
)

//go:embed lua/account.lua
var script string

// hashOf returns the hash by which Redis identifies a script.
func hashOf(script string) string {
	hash := sha1.Sum([]byte(script)) //nolint:gosec // as above
	return hex.EncodeToString(hash[:])
}

// A call is a command that is sent once. A cluster client would repeat a command that timed out, though Redis may have executed it.
type call struct{ *redis.StringCmd }

func newCall(ctx context.Context, args []any) call {
	c := call{redis.NewStringCmd(ctx, args...)}
	c.SetFirstKeyPos(3)
	return c
}

// NoRetry implements a part of [redis.Cmder].
func (call) NoRetry() bool { return true }

// run runs the script on a key and returns its answer. If Redis does not have the script, it has executed nothing, and run repeats the call
// with the script.
func (s *Store) run(ctx context.Context, key string, args ...any) ([]byte, error) {
	args = append([]any{"evalsha", s.scriptHash, "1", key}, args...)
	c := newCall(ctx, args)
	err := s.process(ctx, c)
	if redis.HasErrorPrefix(err, "NOSCRIPT") {
		s.metrics.reloads.Inc()
		args[0], args[1] = "eval", script
		c = newCall(ctx, args)
		err = s.process(ctx, c)
	}
	if err != nil {
		return nil, err
	}
	return c.Bytes()
}
