package logging

import (
	"context"
	"io"
	"log/slog"
)

// Options say how log lines look.
type Options struct {
	Writer io.Writer
	Level  slog.Leveler // the least level that is logged, which may change (slog.LevelVar); nil for info
	Text   bool         // key=value text for people, in place of one JSON object a line
}

// A Log is a logger that gathers its lines. It must be closed.
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
	lines.tell = func(lost int) { log.Warn("lines of the log were lost, as nobody read it", slog.Int("lines", lost)) }
	go lines.run()
	return log
}

// Close writes what is left, unless nobody reads it for a second, and returns the first error that there was in writing. Lines that come
// later are written at once.
func (l *Log) Close() error { return l.lines.Close() }

// urgent has a line that somebody may be waiting for written at once.
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
		u.lines.hurry()
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
