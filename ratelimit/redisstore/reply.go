package redisstore

import (
	"errors"
	"strings"

	"github.com/redis/go-redis/v9"

	"opsgate/ratelimit"
)

// isReply reports whether Redis returned the error.
func isReply(err error) bool {
	_, ok := errors.AsType[redis.Error](err)
	return ok
}

// A scriptError is an error reply to a command in a script, without the position in the script.
type scriptError string

// Error implements [redis.Error].
func (e scriptError) Error() string { return string(e) }

// RedisError implements [redis.Error].
func (scriptError) RedisError() {}

// normalized returns the error as of Redis 7. Redis 6 adds text before the error of a command in a
// script: "ERR Error running script (call to f_…): @user_script:383: -OOM command not allowed".
func normalized(err error) error {
	if isReply(err) && strings.HasPrefix(err.Error(), "ERR Error running script") {
		if _, reply, found := strings.Cut(err.Error(), ": -"); found {
			return scriptError(reply)
		}
	}
	return err
}

// A notExecuted is a [ratelimit.ErrNotExecuted] with a cause.
type notExecuted struct{ error }

// Is implements the interface of [errors.Is].
func (notExecuted) Is(target error) bool { return target == ratelimit.ErrNotExecuted }

// Unwrap returns the cause.
func (e notExecuted) Unwrap() error { return e.error }
