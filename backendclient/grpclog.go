package backendclient

import (
	"io"

	"google.golang.org/grpc/grpclog"
)

// DisableGRPCLog discards the log lines that the gRPC library writes to standard error; this
// package logs the state of connections itself. The function must be called before any use of the
// library.
func DisableGRPCLog() {
	grpclog.SetLoggerV2(grpclog.NewLoggerV2(io.Discard, io.Discard, io.Discard))
}
