package refbackend

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"

	"github.com/grpc-ecosystem/go-grpc-middleware/v2/interceptors/logging"
	"github.com/grpc-ecosystem/go-grpc-middleware/v2/interceptors/recovery"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// unaryInterceptors go around every call, outermost first: the log sees what the client is told, a panic included.
func (b *Backend) unaryInterceptors() []grpc.UnaryServerInterceptor {
	return []grpc.UnaryServerInterceptor{
		logging.UnaryServerInterceptor(logCall(b.logger), logOptions(logging.LevelWarn)...),
		recovery.UnaryServerInterceptor(recovery.WithRecoveryHandlerContext(b.recovered)),
		requireTeam,
		func(ctx context.Context, request any, _ *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
			response, err := handle(ctx, request)
			return response, statusOf(ctx, err)
		},
	}
}

// streamInterceptors are the same for streams, which belong to no team.
func (b *Backend) streamInterceptors() []grpc.StreamServerInterceptor {
	return []grpc.StreamServerInterceptor{
		// A stream that is open when the service stops ends as UNAVAILABLE, and that is no news.
		logging.StreamServerInterceptor(logCall(b.logger), logOptions(logging.LevelDebug)...),
		recovery.StreamServerInterceptor(recovery.WithRecoveryHandlerContext(b.recovered)),
		func(service any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
			return statusOf(stream.Context(), handle(service, stream))
		},
	}
}

// requireTeam refuses a request whose team is not a UUID, so that no method has to.
func requireTeam(ctx context.Context, request any, _ *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
	if r, ok := request.(interface{ GetTeamId() string }); ok {
		if id, valid := canonicalID(r.GetTeamId()); !valid || id != r.GetTeamId() {
			var problems violations
			problems.add("team_id", "must be a UUID in lower case")
			return nil, problems.err()
		}
	}
	return handle(ctx, request)
}

// statusOf is the one place where an error becomes a code. What is not a status already is the caller's impatience, or a fault
// of this service.
func statusOf(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if _, ok := status.FromError(err); ok {
		return err
	}
	if cause := ctx.Err(); cause != nil {
		return status.FromContextError(cause).Err()
	}
	return status.Error(codes.Internal, err.Error())
}

func (b *Backend) recovered(ctx context.Context, panicked any) error {
	b.logger.ErrorContext(ctx, "a call panicked", "panic", fmt.Sprint(panicked), "stack", string(debug.Stack()))
	return status.Error(codes.Internal, "the call failed")
}

// logCall hands the middleware's records to slog, whose levels are the same numbers.
func logCall(logger *slog.Logger) logging.Logger {
	return logging.LoggerFunc(func(ctx context.Context, level logging.Level, message string, fields ...any) {
		logger.Log(ctx, slog.Level(level), message, fields...)
	})
}

// logOptions make one record of a call, when it is finished, without what was asked or answered. What succeeded, or failed
// because of the caller, is for debugging; how grave UNAVAILABLE is depends on the kind of call.
func logOptions(unavailable logging.Level) []logging.Option {
	return []logging.Option{
		logging.WithLogOnEvents(logging.FinishCall),
		logging.WithLevels(func(code codes.Code) logging.Level {
			switch code {
			case codes.Internal, codes.Unknown, codes.DataLoss:
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
