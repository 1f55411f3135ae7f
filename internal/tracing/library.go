package tracing

import (
	"log/slog"

	"github.com/go-logr/logr"
	"go.opentelemetry.io/otel"
)

// setLibraryLog makes the library log by the logger and not to standard error. The library has one
// log per process.
func setLibraryLog(logger *slog.Logger) {
	otel.SetLogger(logr.New(librarySink{logger}))
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { logger.Debug("opentelemetry", slog.Any("error", err)) }))
}

// A librarySink is the library's log. It leaves out the values of messages, which can be headers
// with secrets.
type librarySink struct{ logger *slog.Logger }

// Enabled implements [logr.LogSink]. The library logs warnings with level 1 and information with
// level 4.
func (librarySink) Enabled(level int) bool { return level <= 1 }

// Error implements [logr.LogSink]. The library continues without a setting that it cannot read.
func (s librarySink) Error(err error, message string, _ ...any) {
	s.logger.Warn("opentelemetry: "+message, slog.Any("error", err))
}

// Info implements [logr.LogSink].
func (s librarySink) Info(_ int, message string, _ ...any) {
	s.logger.Debug("opentelemetry: " + message)
}

// Init implements [logr.LogSink].
func (librarySink) Init(logr.RuntimeInfo) {}

// WithValues implements [logr.LogSink].
func (s librarySink) WithValues(...any) logr.LogSink { return s }

// WithName implements [logr.LogSink].
func (s librarySink) WithName(string) logr.LogSink { return s }
