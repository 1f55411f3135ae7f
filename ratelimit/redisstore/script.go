package redisstore

import (
	"context"
	"crypto/sha1" //nolint:gosec // the name that Redis gives a script; nothing is kept safe by it
	_ "embed"
	"encoding/hex"

	"github.com/redis/go-redis/v9"
)

//go:embed lua/account.lua
var accountLua string

//go:embed lua/decide.lua
var decideLua string

//go:embed lua/refund.lua
var refundLua string

//go:embed lua/settle.lua
var settleLua string

// A script is what Redis runs for us, under the hash that it knows it by.
type script struct {
	source, hash string
}

// newScript returns a script that may use what account.lua has.
func newScript(source string) script {
	source = accountLua + source
	hash := sha1.Sum([]byte(source)) //nolint:gosec // as above
	return script{source: source, hash: hex.EncodeToString(hash[:])}
}

// args begins the arguments of a call: command, script, number of keys, key.
func (sc *script) args(key string, further ...any) []any {
	return append([]any{"evalsha", sc.hash, "1", key}, further...)
}

// A call is a command that is sent once: a cluster's client would repeat one that timed out, which may have been executed.
type call struct{ *redis.StringCmd }

func newCall(ctx context.Context, args []any) call {
	c := call{redis.NewStringCmd(ctx, args...)}
	c.SetFirstKeyPos(3)
	return c
}

// NoRetry implements a part of [redis.Cmder].
func (call) NoRetry() bool { return true }

// run runs a script with the arguments that its args made, and returns what it does. Where Redis has lost it, nothing was done,
// so it is sent along and run again.
func (s *Store) run(ctx context.Context, sc *script, args []any) ([]byte, error) {
	c := newCall(ctx, args)
	err := s.client.Process(ctx, c)
	if redis.HasErrorPrefix(err, "NOSCRIPT") {
		s.metrics.reloads.Inc()
		args[0], args[1] = "eval", sc.source
		c = newCall(ctx, args)
		err = s.client.Process(ctx, c)
	}
	if err != nil {
		return nil, err
	}
	return c.Bytes()
}
