package service

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"

	"github.com/grpc-ecosystem/go-grpc-middleware/v2/interceptors/logging"
	"github.com/grpc-ecosystem/go-grpc-middleware/v2/interceptors/recovery"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"opsgate/cmd/internal/backend/store"
	"opsgate/internal/uuid"
)

// unaryInterceptors returns the interceptors of unary calls on all listeners, outermost first: the
// log records the code that the client gets, also after a panic.
func (b *Backend) unaryInterceptors() []grpc.UnaryServerInterceptor {
	return []grpc.UnaryServerInterceptor{
		b.traced,
		logging.UnaryServerInterceptor(logCall(b.options.Logger), logOptions(logging.LevelWarn)...),
		recovery.UnaryServerInterceptor(recovery.WithRecoveryHandlerContext(b.recovered)),
		func(ctx context.Context, request any, _ *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
			response, err := handle(ctx, request)
			return response, b.statusOf(ctx, err)
		},
	}
}

// streamInterceptors returns the interceptors of streams, which do not act for a team.
func (b *Backend) streamInterceptors() []grpc.StreamServerInterceptor {
	return []grpc.StreamServerInterceptor{
		// Streams that are open when the service stops end with UNAVAILABLE: that is normal.
		logging.StreamServerInterceptor(logCall(b.options.Logger), logOptions(logging.LevelDebug)...),
		recovery.StreamServerInterceptor(recovery.WithRecoveryHandlerContext(b.recovered)),
		func(service any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
			return b.statusOf(stream.Context(), handle(service, stream))
		},
	}
}

// requireTeam returns INVALID_ARGUMENT if the team of a request is not a UUID in lower case.
func requireTeam(ctx context.Context, request any, _ *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
	if r, ok := request.(interface{ GetTeamId() string }); ok {
		if id, valid := uuid.Canonical(r.GetTeamId()); !valid || id != r.GetTeamId() {
			return nil, invalidField("team_id", "must be a UUID in lower case")
		}
	}
	return handle(ctx, request)
}

// statusOf converts an error to a status: DEADLINE_EXCEEDED or CANCELLED if the context has ended,
// UNAVAILABLE if the disk is full, so that clients try again later, DATA_LOSS if the database is
// damaged, or else INTERNAL.
func (b *Backend) statusOf(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if _, ok := status.FromError(err); ok {
		return err
	}
	if cause := ctx.Err(); cause != nil {
		return status.FromContextError(cause).Err()
	}
	switch file, ok := errors.AsType[*store.FileError](err); {
	case ok && file.Full:
		return status.Error(codes.Unavailable, file.Error())
	case ok && file.Damaged:
		b.recurring.ErrorContext(ctx, "the database is damaged", "cause", file)
		return status.Error(codes.DataLoss, file.Error())
	}
	return status.Error(codes.Internal, err.Error())
}

func (b *Backend) recovered(ctx context.Context, panicked any) error {
	b.options.Logger.ErrorContext(ctx, "a call panicked", "panic", fmt.Sprint(panicked), "stack", string(debug.Stack()))
	return status.Error(codes.Internal, "the call failed")
}

// logCall adapts the logger to the middleware, whose levels have the same numbers as slog's.
func logCall(logger *slog.Logger) logging.Logger {
	return logging.LoggerFunc(func(ctx context.Context, level logging.Level, message string, fields ...any) {
		logger.Log(ctx, slog.Level(level), message, fields...)
	})
}

// logOptions returns options for one record of each finished call, without request and response.
// Calls that succeed, or fail because of the caller, have the level debug, as has DATA_LOSS, which
// statusOf logs; UNAVAILABLE has the given level.
func logOptions(unavailable logging.Level) []logging.Option {
	return []logging.Option{
		logging.WithLogOnEvents(logging.FinishCall),
		logging.WithLevels(func(code codes.Code) logging.Level {
			switch code {
			case codes.Internal, codes.Unknown:
				return logging.LevelError
			case codes.Unavailable:
				return unavailable
			case codes.ResourceExhausted, codes.DeadlineExceeded:
				return logging.LevelWarn
			default:
				return logging.LevelDebug
			}
		}),
	}
}
