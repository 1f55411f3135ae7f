// Command opsdev is the whole operations platform on one machine in one process, with demo data.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"opsgate/backendclient"
	"opsgate/cmd/internal/dev/command"
)

func main() {
	backendclient.DisableGRPCLog()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // the first signal shuts down gracefully, a second one ends at once
	os.Exit(command.Run(ctx, os.Args[1:], command.Environment{Out: os.Stdout, Err: os.Stderr, Variables: os.Environ()}))
}
