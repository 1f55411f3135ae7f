package redisstore

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/redis/go-redis/v9"
)

// LogTo sends the log lines of go-redis, of the whole process, to a logger at level debug. By default go-redis writes them to standard
// error whenever a connection fails, which calls report anyway.
func LogTo(l *slog.Logger) { redis.SetLogger(details{l}) }

type details struct{ *slog.Logger }

// Printf implements go-redis's logger.
func (d details) Printf(ctx context.Context, format string, v ...any) {
	if d.Enabled(ctx, slog.LevelDebug) {
		d.DebugContext(ctx, "redis client", "detail", fmt.Sprintf(format, v...))
	}
}
