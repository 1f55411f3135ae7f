// Command opsbackend is the reference operations backend: all internal services on one SQLite file.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"opsgate/cmd/internal/backend/command"
)

func main() {
	signal.Ignore(syscall.SIGPIPE) // a closed log must not end the backend
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // the first signal shuts down gracefully, a second one ends at once
	os.Exit(command.Run(ctx, os.Args[1:], command.Environment{Out: os.Stdout, Err: os.Stderr}))
}
