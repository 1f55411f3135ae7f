package backendclient

import (
	"io"

	"google.golang.org/grpc/grpclog"
)

// QuietLibrary ends what the gRPC library writes to standard error by itself, in lines of its own form: what there is to say of
// connections and calls, this package logs. A program calls it first of all, before anything uses the library.
func QuietLibrary() {
	grpclog.SetLoggerV2(grpclog.NewLoggerV2(io.Discard, io.Discard, io.Discard))
}
