package redisstore

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/redis/go-redis/v9"
)

// LogTo has what go-redis says by itself, in all of the process, logged as details: by default it writes lines of its own to
// standard error whenever a connection fails, which calls report anyway.
func LogTo(l *slog.Logger) { redis.SetLogger(details{l}) }

type details struct{ *slog.Logger }

// Printf implements go-redis's logger.
func (d details) Printf(ctx context.Context, format string, v ...any) {
	if d.Enabled(ctx, slog.LevelDebug) {
		d.DebugContext(ctx, "redis client", "detail", fmt.Sprintf(format, v...))
	}
}
