// Command opsgate is the public HTTP edge of the operations platform.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"opsgate/backendclient"
	"opsgate/cmd/internal/gate/command"
)

func main() {
	backendclient.DisableGRPCLog()
	signal.Ignore(syscall.SIGPIPE) // a closed log must not end the gateway
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // the first signal drains, a second one ends at once
	os.Exit(command.Run(ctx, os.Args[1:], command.Environment{Out: os.Stdout, Err: os.Stderr, Variables: os.Environ()}))
}
