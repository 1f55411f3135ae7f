package logging

import (
	"context"
	"io"
	"log/slog"
)

// Options of a log.
type Options struct {
	Writer io.Writer
	Level  slog.Leveler // the lowest level that is logged; a slog.LevelVar can change it; nil for info
	Text   bool         // key=value text instead of a JSON object per line
}

// A Log is a logger that buffers its lines. It must be closed.
type Log struct {
	*slog.Logger

	lines *buffer
}

// New starts a log.
func New(o Options) *Log {
	lines := newBuffer(o.Writer)
	options := &slog.HandlerOptions{Level: o.Level}
	var handler slog.Handler
	if o.Text {
		handler = slog.NewTextHandler(lines, options)
	} else {
		handler = slog.NewJSONHandler(lines, options)
	}
	log := &Log{Logger: slog.New(urgent{handler, lines}), lines: lines}
	lines.report = func(lost int) {
		log.Warn("log lines were dropped because the log was not read", slog.Int("lines", lost))
	}
	go lines.run()
	return log
}

// Close writes the buffered lines, waits for that at most a second, and returns the first error of
// the writer. Later lines are written at once.
func (l *Log) Close() error { return l.lines.Close() }

// urgent is a handler that writes lines of level warning and above without delay.
type urgent struct {
	slog.Handler

	lines *buffer
}

// Handle writes a record.
func (u urgent) Handle(ctx context.Context, r slog.Record) error {
	if err := u.Handler.Handle(ctx, r); err != nil {
		return err
	}
	if r.Level >= slog.LevelWarn {
		u.lines.flushSoon()
	}
	return nil
}

// WithAttrs returns a handler that adds attributes.
func (u urgent) WithAttrs(attrs []slog.Attr) slog.Handler {
	return urgent{u.Handler.WithAttrs(attrs), u.lines}
}

// WithGroup returns a handler that puts attributes into a group.
func (u urgent) WithGroup(name string) slog.Handler {
	return urgent{u.Handler.WithGroup(name), u.lines}
}
