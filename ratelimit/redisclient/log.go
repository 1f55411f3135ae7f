package redisclient

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/redis/go-redis/v9"
)

// LogTo sets the logger of go-redis for the whole process, at level debug. By default go-redis
// writes to standard error whenever a connection fails, which the errors of calls report as well.
func LogTo(l *slog.Logger) { redis.SetLogger(debugLogger{l}) }

// A debugLogger logs lines of go-redis at level debug.
type debugLogger struct{ *slog.Logger }

// Printf implements go-redis's logger.
func (l debugLogger) Printf(ctx context.Context, format string, v ...any) {
	l.DebugContext(ctx, "redis client", "detail", fmt.Sprintf(format, v...))
}
