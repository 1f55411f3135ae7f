package failover

import (
	"context"
	"errors"
	"io"
	"net"
	"syscall"

	"github.com/sony/gobreaker/v2"

	"opsgate/ratelimit"
)

// The kinds of failures of the shared store: values of the metric label "cause".
const (
	timeout = "timeout" // no answer in time
	refused = "refused" // no server, or the connection broke: the store may have been restarted
	stalled = "stalled" // no answer in time, as this process did not run: the breaker does not count it
	other   = "other"
)

func kindOf(err error) string {
	var network net.Error
	switch {
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &network) && network.Timeout():
		return timeout
	case errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE), errors.Is(err, io.EOF),
		errors.Is(err, io.ErrUnexpectedEOF):
		return refused
	default:
		return other
	}
}

// mayHaveExecuted reports whether the shared store may have executed a call that failed.
func mayHaveExecuted(err error) bool {
	var answer interface{ RedisError() } // implemented by redis.Error, which is an answer
	unsent := errors.Is(err, ratelimit.ErrNotSent) || errors.Is(err, gobreaker.ErrOpenState) || errors.Is(err, gobreaker.ErrTooManyRequests)
	return !unsent && !errors.As(err, &answer)
}
